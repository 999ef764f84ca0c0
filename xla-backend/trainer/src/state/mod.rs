//! The state on the cores that lasts from step to step: parameters, optimizer slots and a few
//! constants.
//!
//! With `fsdp`, what belongs to a large parameter is sharded over the `data` axis (ZeRO), of all hosts unless the
//! sharding is hybrid:
//! - `shard_optimizer`: the optimizer's slots and the copy that it updates. Gradients are
//!   reduce-scattered, each core updates its shard, and the shards are gathered into the whole.
//! - `shard_grad_op`: also the sum of the gradients of a step's batches, each of which is scattered.
//! - `full_shard`: also the parameter. Layers gather it, and nothing else holds the whole.
//!
//! Where several cores form the `tensor` axis, each holds its part of the parameters that layers
//! divide, and of all that belongs to them. With `sequence_parallel` each has the gradient of its
//! positions alone of parameters that stand between these layers, and gradients are added up.
//!
//! With preference pairs a frozen reference has copies of the trained parameters, or parameters of another model,
//! distributed alike.
//!
//! Imports no other module.

mod accumulation;
mod config;
mod distribution;
mod gradient_cache;
mod layout;
mod mesh;
mod parameter;
mod pipeline;
mod reference;
mod slots;
mod trained;
mod update_parts;

use rayon::prelude::*;
pub use traind_choices::Fsdp;
use traind_models::optimizers::{Optimizers, Shardable};
use traind_models::parameter_shards::ParameterShards;
use traind_models::weights::ArrayParts;
use traind_models::{Model, ParameterTensors, TensorCores};
use traind_xla::mesh::{Axis, Coordinates, Mesh};
use traind_xla::runtime::{HostArray, HostMemory, LazyDevice, Recorder, Recording, Variable};
use traind_xla::{DType, Shape, Tensor};

use crate::error::Result;
use distribution::Distribution;
use layout::{Layout, Shards};

pub(crate) use accumulation::Accumulation;
pub use accumulation::LossScale;
pub use accumulation::ScaleValues;
pub use config::StateConfig;
pub use gradient_cache::CacheConfig;
pub(crate) use gradient_cache::GradientCache;
pub use layout::SHARDED_ELEMENTS_MIN;
pub use mesh::MeshConfig;
pub use parameter::ParameterState;
pub use parameter::Place;
pub(crate) use parameter::{Gradient, ParameterUpdate, ParameterValue, ShardNumbers};
pub use pipeline::Loan;
pub use pipeline::{Pipeline, PipelineConfig};
pub use reference::Reference;
pub use slots::StoredSlots;
pub(crate) use slots::{HeldSlot, trained_name};
pub(crate) use trained::TrainedStart;
pub(crate) use update_parts::{PARTS_IN_FLIGHT, UpdatePart};

/// The state of a training run on the cores of one stage: all of it where there is one.
#[derive(Clone, Debug)]
pub struct TrainState {
    /// The parameters in the model's order.
    parameters: Vec<ParameterState>,
    /// u32: seeds the random numbers of every step.
    pub seed: Variable,
    /// u32: the first row of this core in the global batch.
    pub row_offset: Variable,
    /// f32: infinity where gradients are not clipped.
    pub max_grad_norm: Variable,
    /// u32: this core's place on the `tensor` axis, where that has several cores.
    tensor_index: Option<Variable>,
    /// u32: the number of the shard that this core updates, where it has whole parameters or gathers them.
    shard_number: Option<Variable>,
    mesh: Mesh,
    /// The cores that have different shards.
    shards: Shards,
    /// Present where a step takes several programs.
    pub(crate) accumulation: Option<Accumulation>,
    /// Present where batches whose rows are compared pass through the model in parts.
    pub(crate) gradient_cache: Option<GradientCache>,
    /// Present where the loss is scaled.
    pub loss_scale: Option<LossScale>,
    config: StateConfig,
}

/// The sizes of the state, in bytes: on one core, and whole.
#[derive(Clone, Copy, Debug, Default)]
pub struct StateBytes {
    /// Parameters, and those of the reference.
    pub parameters: u64,
    /// The parameters that the reference has for itself.
    pub reference: u64,
    /// The gradients that the optimizer reads.
    pub gradients: u64,
    /// Sums of gradients over the batches of a step.
    pub gradient_sums: u64,
    /// The optimizer's slots.
    pub slots: u64,
    /// The bytes that the optimizer keeps in host memory: the slots, which then do not count above.
    pub offloaded: u64,
    /// The most of these bytes that are on the core at one time during an update.
    pub loaded: u64,
    /// The slots of all cores together.
    pub slots_whole: u64,
}

impl StateBytes {
    /// Adds what `longer` has besides `shorter`, so many times.
    pub fn plus_growth(&self, shorter: &StateBytes, longer: &StateBytes, times: u64) -> StateBytes {
        let of = |size: fn(&StateBytes) -> u64| size(self) + times * (size(longer) - size(shorter));
        StateBytes {
            parameters: of(|it| it.parameters),
            reference: of(|it| it.reference),
            gradients: of(|it| it.gradients),
            gradient_sums: of(|it| it.gradient_sums),
            slots: of(|it| it.slots),
            offloaded: of(|it| it.offloaded),
            loaded: of(|it| it.loaded),
            slots_whole: of(|it| it.slots_whole),
        }
    }
}

/// The sizes of whole arrays on the host, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostBytes {
    /// All parameters.
    pub parameters: u64,
    /// All of their optimizer slots.
    pub slots: u64,
}

/// The values that training starts from.
#[derive(Debug, Default)]
pub struct StartValues {
    /// All parameters of the model, in its order.
    pub parameters: Vec<HostArray>,
    /// The parameters of the reference in the same order, where they are others.
    pub reference: Option<Vec<HostArray>>,
    /// The slots of a checkpoint; zeros where absent.
    pub slots: Option<StoredSlots>,
    /// The scale of the loss, where it is scaled.
    pub loss_scale: ScaleValues,
}

impl TrainState {
    /// Declares the variables of a stage with the parameters at `places`. `metrics`: how many each step gives besides
    /// its loss. `cache`: the parts that batches pass through the model in, where a loss compares all of their rows.
    pub fn declare(
        recorder: &mut Recorder,
        model: &Model,
        optimizers: &Optimizers,
        config: StateConfig,
        cache: Option<CacheConfig>,
        metrics: usize,
        places: Vec<Place>,
    ) -> Result<TrainState> {
        let trained = model.parameters().iter().filter(|spec| spec.trainable);
        let shardable: Vec<Shardable> =
            trained.map(|spec| optimizers.of(spec).shardable(spec)).collect();
        let sharded = config.fsdp != Fsdp::No && shardable.iter().any(|it| *it != Shardable::No);
        let mesh = recorder.mesh().clone();
        let shards = match sharded {
            true if config.fsdp.is_within_hosts() => {
                Shards { cores: mesh.size(Axis::Data), hosts: 1 }
            }
            true => Shards { cores: mesh.size(Axis::Data), hosts: mesh.hosts() },
            false => Shards::ONE,
        };
        let StateConfig { fsdp, accumulates, .. } = config;
        let divides_positions = config.sequence_parallel;
        let declaration =
            parameter::Declaration { optimizers, fsdp, shards, accumulates, divides_positions };
        let mut parameters = Vec::new();
        for place in places {
            let spec = &model.parameters()[place.index];
            let copies = config.reference.is_some_and(|it| it.copies(model, spec));
            let parameter = ParameterState::declare(recorder, spec, place, &declaration)?;
            parameters.push(if copies { parameter.with_reference(recorder) } else { parameter });
        }
        let accumulation = config.accumulates.then(|| Accumulation::declare(recorder, metrics));
        let loss_scale = config.scales_loss.then(|| LossScale::declare(recorder));
        let rows = config.rows_per_core;
        let gradient_cache = cache.map(|cache| GradientCache::declare(recorder, &cache, rows));
        let shares_layers = mesh.size(Axis::Tensor) > 1;
        // A core that has gathered a parameter for its update takes its shard of the result.
        let gathers = shardable.contains(&Shardable::Gathered);
        let updates_shards = shards != Shards::ONE && (!fsdp.shards_parameters() || gathers);
        Ok(TrainState {
            parameters,
            seed: recorder.declare("seed", Shape::scalar(DType::U32)),
            row_offset: recorder.declare("row_offset", Shape::scalar(DType::U32)),
            max_grad_norm: recorder.declare("max_grad_norm", Shape::scalar(DType::F32)),
            tensor_index: shares_layers
                .then(|| recorder.declare("tensor_index", Shape::scalar(DType::U32))),
            shard_number: updates_shards
                .then(|| recorder.declare("shard_number", Shape::scalar(DType::U32))),
            mesh,
            shards,
            accumulation,
            gradient_cache,
            loss_scale,
            config,
        })
    }

    /// Keeps the optimizer's state in host memory from now on.
    pub fn offload(&self, device: &mut LazyDevice, memory: &HostMemory) {
        for variable in self.parameters.iter().flat_map(ParameterState::optimizer_variables) {
            device.keep_on_host(variable, memory.clone());
        }
    }

    /// Uploads the values that training starts with.
    pub fn start(&self, device: &mut LazyDevice, start: &StartValues) -> Result<()> {
        for parameter in &self.parameters {
            let array = &start.parameters[parameter.index()];
            parameter.start(device, array, start.slots.as_ref())?;
            let reference = start.reference.as_ref().unwrap_or(&start.parameters);
            parameter.start_reference(device, &reference[parameter.index()])?;
        }
        let config = &self.config;
        let max_grad_norm = HostArray::from_f32(&[], &[config.max_grad_norm as f32])?;
        device.set(self.max_grad_norm, &max_grad_norm)?;
        device.set(self.seed, &HostArray::from_u32(&[], &[fold_seed(config.seed)])?)?;
        set_places(device, self.row_offset, |at| self.mesh.data_shard(at) * config.rows_per_core)?;
        if let Some(index) = self.tensor_index {
            set_places(device, index, |at| at.tensor)?;
        }
        if let Some(number) = self.shard_number {
            set_places(device, number, |at| self.shards.number(at.data, self.mesh.data_place()))?;
        }
        if let Some(sums) = &self.accumulation {
            sums.start(device)?;
        }
        if let Some(cache) = &self.gradient_cache {
            cache.start(device)?;
        }
        if let Some(loss_scale) = &self.loss_scale {
            loss_scale.start(device, start.loss_scale)?;
        }
        Ok(())
    }

    /// All parameters that the stage reads.
    pub fn parameters(&self) -> &[ParameterState] {
        &self.parameters
    }

    /// The parameter with the place `index` among those of the model, if the stage reads it.
    pub fn parameter(&self, index: usize) -> Option<&ParameterState> {
        let found = self.parameters.binary_search_by_key(&index, ParameterState::index);
        found.ok().map(|position| &self.parameters[position])
    }

    /// Records a read of each parameter of `chunk` at the start of the program.
    pub(crate) fn read_parameters(
        &self,
        at: &mut Recording<'_>,
        chunk: usize,
    ) -> Result<Vec<ParameterValue<'_>>> {
        let read = self.parameters.iter().filter(|parameter| parameter.is_read_by(chunk));
        read.map(|parameter| parameter.read(at)).collect()
    }

    /// The parameters as layers read them, with the cores that have their other parts.
    pub(crate) fn tensors(
        &self,
        at: &mut Recording<'_>,
        parameters: &[ParameterValue<'_>],
    ) -> Result<ParameterTensors> {
        let values = parameters.iter().map(|it| it.value.clone()).collect();
        self.tensors_of(at, parameters, values)
    }

    /// The parameters of the frozen reference as layers read them; `None` where the job has none.
    pub(crate) fn reference_tensors(
        &self,
        at: &mut Recording<'_>,
        parameters: &[ParameterValue<'_>],
    ) -> Result<Option<ParameterTensors>> {
        if self.config.reference.is_none() {
            return Ok(None);
        }
        let values = parameters.iter().map(|it| it.reference(at)).collect::<Result<_>>()?;
        self.tensors_of(at, parameters, values).map(Some)
    }

    fn tensors_of(
        &self,
        at: &mut Recording<'_>,
        parameters: &[ParameterValue<'_>],
        values: Vec<Tensor>,
    ) -> Result<ParameterTensors> {
        let names = parameters.iter().map(|it| it.parameter.name());
        let shapes = parameters.iter().filter_map(|it| {
            Some((it.parameter.name().to_owned(), it.parameter.gathered_shape()?))
        });
        let shards = ParameterShards::new(self.shards.groups(&self.mesh), shapes);
        let cores = match self.tensor_index {
            Some(index) => TensorCores::of(&self.mesh, &at.read(index)?),
            None => None,
        };
        let cores = cores.map(|it| it.dividing_positions(self.config.sequence_parallel));
        Ok(ParameterTensors::new(names.zip(values)).divided_over(cores).stored_in(shards))
    }

    /// This core's place on the `tensor` axis, where that has several cores.
    pub(crate) fn tensor_index(&self) -> Option<Variable> {
        self.tensor_index
    }

    /// The shard that this core updates, where it has whole parameters.
    pub(crate) fn shard_numbers(&self, at: &mut Recording<'_>) -> Result<Option<ShardNumbers>> {
        let Some(number) = self.shard_number else { return Ok(None) };
        let group = match self.tensor_index {
            Some(index) => at.read(index)?,
            None => at.trace().scalar(0.0, DType::U32)?,
        };
        Ok(Some(ShardNumbers { shard: at.read(number)?, group }))
    }

    /// Records a read of the gradient sum of each trained parameter that the stage updates.
    pub(crate) fn read_gradient_sums(&self, at: &mut Recording<'_>) -> Result<Vec<Gradient<'_>>> {
        let sums = self.parameters.iter().filter_map(|parameter| parameter.read_gradient_sum(at));
        sums.collect()
    }

    /// Records a read of the gradient sums that a part of the update reads, after [`Gradient::store`].
    pub(crate) fn read_stored_sums(
        &self,
        at: &mut Recording<'_>,
        part: &UpdatePart,
    ) -> Result<Vec<Gradient<'_>>> {
        let parameters = self.parameters[part.parameters.clone()].iter();
        let sums = parameters.filter_map(|parameter| parameter.read_gradient_sum(at));
        sums.map(|sum| Ok(sum?.stored())).collect()
    }

    /// The parts in which the stage updates.
    pub(crate) fn update_parts(&self) -> Vec<UpdatePart> {
        match self.config.offloads_optimizer {
            true => update_parts::divided(&self.parameters),
            false => vec![UpdatePart { parameters: 0..self.parameters.len(), is_last: true }],
        }
    }

    /// Records that the sums over the batches of a step are reset to zero.
    pub(crate) fn reset_sums(&self, at: &mut Recording<'_>, part: &UpdatePart) -> Result<()> {
        let parameters = self.parameters[part.parameters.clone()].iter();
        let gradients = parameters.filter_map(ParameterState::gradient_sum);
        let sums = self.accumulation.iter().filter(|_| part.is_last);
        for sum in gradients.chain(sums.flat_map(Accumulation::sums)) {
            let zeros = at.read(sum)?.cleared()?;
            at.assign(sum, &zeros)?;
        }
        Ok(())
    }

    /// Whether hosts hold different parts of the state, so that none can save all of it.
    pub fn is_over_hosts(&self) -> bool {
        self.parameters.iter().any(ParameterState::is_over_hosts)
    }

    /// Whether the passes of a batch exchange parts of parameters or gradients with other hosts.
    pub(crate) fn passes_reach_hosts(&self) -> bool {
        self.parameters.iter().any(ParameterState::passes_reach_hosts)
    }

    /// Copies what this host holds of the optimizer's `wanted` slots to the host.
    pub(crate) fn slots(
        &self,
        device: &LazyDevice,
        wanted: &(impl Fn(&HeldSlot) -> bool + Sync),
    ) -> Result<ArrayParts> {
        let of_parameter = |parameter: &ParameterState| {
            let mut parts = ArrayParts::new();
            parameter.read_slots(device, wanted, &mut parts)?;
            Ok(parts)
        };
        let parts = self.parameters.par_iter().map(of_parameter).collect::<Result<Vec<_>>>()?;
        Ok(parts.into_iter().flatten().collect())
    }

    /// The sizes of the state whose variables `recorder` declared.
    pub fn bytes(&self, recorder: &Recorder) -> StateBytes {
        let mut bytes = StateBytes::default();
        self.parameters.iter().for_each(|parameter| parameter.add_bytes(recorder, &mut bytes));
        if self.config.offloads_optimizer {
            let of_part = |part: &UpdatePart| -> u64 {
                let parameters = self.parameters[part.parameters.clone()].iter();
                parameters.map(ParameterState::optimizer_bytes).sum()
            };
            bytes.offloaded = self.parameters.iter().map(ParameterState::optimizer_bytes).sum();
            bytes.slots = 0;
            let parts = self.update_parts();
            bytes.loaded = update_parts::largest_in_flight(parts.iter().map(of_part));
        }
        bytes
    }

    /// The sizes of the parameters that the stage updates.
    pub fn host_bytes(&self) -> HostBytes {
        let owned = self.parameters.iter().filter(|parameter| parameter.is_owned());
        let parameters = owned.map(ParameterState::size_bytes).sum::<usize>();
        let slots = self.parameters.iter().map(ParameterState::slot_bytes).sum::<usize>();
        HostBytes { parameters: parameters as u64, slots: slots as u64 }
    }
}

/// Sets a variable to zeros on every core.
fn set_zeros(device: &mut LazyDevice, variable: Variable) -> Result<()> {
    let zeros = HostArray::zeros(device.shape(variable).clone());
    Ok(device.set(variable, &zeros)?)
}

/// Sets a u32 scalar to a number that depends on the core's place in the mesh.
fn set_places(
    device: &mut LazyDevice,
    variable: Variable,
    number: impl Fn(Coordinates) -> usize,
) -> Result<()> {
    let cores = device.cores().coordinates();
    let numbers = cores.map(|at| HostArray::from_u32(&[], &[number(at) as u32]));
    let numbers = numbers.collect::<Result<Vec<_>, _>>()?;
    Ok(device.set_per_core(variable, &numbers.iter().collect::<Vec<_>>())?)
}

/// Folds a seed into the 32 bits that device programs use.
fn fold_seed(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}
