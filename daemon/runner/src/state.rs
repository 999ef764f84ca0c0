//! What lives on the cores from step to step: parameters, optimizer slots and
//! the few constants that a step reads.
//!
//! With `shard_optimizer_state` a large parameter's slots, and the copy that
//! the optimizer updates, are split over the cores of the `data` axis (ZeRO-1):
//! gradients are reduce-scattered, each core updates its shard, and the shards
//! are gathered into the whole parameter again.

use std::sync::Arc;

use traind_models::Model;
use traind_models::optimizers::{Optimizer, Scalars, Update};
use traind_xla::ops::ReduceKind;
use traind_xla::runtime::{HostArray, LazyDevice, Recording, Variable};
use traind_xla::{DType, Shape, Tensor};

use crate::failure::RunResult;
use crate::train_step::TrainStep;

/// A parameter smaller than this is not worth a collective of its own twice.
const SHARDED_ELEMENTS_MIN: usize = 1 << 14;

/// How the optimizer holds one parameter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Layout {
    /// Every core updates all of it.
    Whole,
    /// Each of `shards` cores updates `length` elements of the flattened
    /// parameter, padded with zeros at its end.
    Shard { shards: usize, length: usize },
}

/// One parameter and its optimizer state.
#[derive(Clone, Debug)]
pub(crate) struct ParameterState {
    whole: Variable,
    shape: Shape,
    layout: Layout,
    /// The shard that this core updates, where the layout is one.
    shard: Option<Variable>,
    slots: Vec<Variable>,
    weight_decay: bool,
}

/// All state of a training run.
#[derive(Clone, Debug)]
pub(crate) struct TrainState {
    parameters: Vec<ParameterState>,
    /// u32: seeds the random numbers of every step.
    pub seed: Variable,
    /// u32: the first row of this core in the global batch.
    pub row_offset: Variable,
    /// f32: infinity where gradients are not clipped.
    pub max_grad_norm: Variable,
}

/// Settings of a run's state.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StateSettings {
    pub seed: u64,
    pub rows_per_core: usize,
    pub max_grad_norm: f64,
    pub shard_optimizer_state: bool,
}

impl TrainState {
    /// Uploads `arrays`, which stand in the order of the model's parameters.
    pub(crate) fn create(
        device: &mut LazyDevice,
        model: &dyn Model,
        optimizer: &Arc<dyn Optimizer>,
        arrays: &[HostArray],
        settings: StateSettings,
    ) -> RunResult<TrainState> {
        // An optimizer that looks at whole rows or columns cannot hold a shard.
        let sharded = settings.shard_optimizer_state && optimizer.shardable();
        let shards = if sharded { device.cores().len() } else { 1 };
        let mut parameters = Vec::with_capacity(arrays.len());
        for (spec, array) in model.parameters().iter().zip(arrays) {
            let layout = Layout::of(&spec.shape, shards);
            parameters.push(ParameterState {
                whole: device.variable(array)?,
                shard: layout.upload_shards(device, array)?,
                slots: layout.create_slots(device, optimizer.as_ref(), &spec.shape)?,
                shape: spec.shape.clone(),
                layout,
                weight_decay: spec.weight_decay,
            });
        }
        let max_grad_norm = HostArray::from_f32(&[], &[settings.max_grad_norm as f32])?;
        Ok(TrainState {
            parameters,
            seed: device.variable(&HostArray::from_u32(&[], &[fold_seed(settings.seed)])?)?,
            row_offset: row_offsets(device, settings.rows_per_core)?,
            max_grad_norm: device.variable(&max_grad_norm)?,
        })
    }

    pub(crate) fn parameters(&self) -> impl Iterator<Item = Variable> {
        self.parameters.iter().map(|parameter| parameter.whole)
    }

    pub(crate) fn parameter(&self, index: usize) -> &ParameterState {
        &self.parameters[index]
    }

    pub(crate) fn layouts(&self) -> impl Iterator<Item = &Layout> {
        self.parameters.iter().map(|parameter| &parameter.layout)
    }
}

impl ParameterState {
    /// Records the update by `gradient`, which has this state's layout.
    pub(crate) fn update(
        &self,
        at: &mut Recording<'_>,
        whole: &Tensor,
        gradient: &Tensor,
        step: &TrainStep,
        scalars: &Scalars,
    ) -> RunResult<()> {
        let slots: Vec<Tensor> =
            self.slots.iter().map(|&slot| at.read(slot)).collect::<Result<_, _>>()?;
        let held = self.shard.map(|shard| at.read(shard)).transpose()?;
        let updated = step.optimizer.update(&Update {
            parameter: held.as_ref().unwrap_or(whole),
            gradient,
            slots: &slots,
            scalars,
            weight_decay: self.weight_decay,
        })?;
        for (&slot, value) in self.slots.iter().zip(&updated.slots) {
            at.assign(slot, value)?;
        }
        if let Some(shard) = self.shard {
            at.assign(shard, &updated.parameter)?;
        }
        let gathered = self.layout.gather(&updated.parameter, &self.shape, &step.data_groups)?;
        Ok(at.assign(self.whole, &gathered)?)
    }
}

impl Layout {
    fn of(shape: &Shape, shards: usize) -> Layout {
        let elements = shape.element_count();
        if shards == 1 || elements < SHARDED_ELEMENTS_MIN {
            return Layout::Whole;
        }
        Layout::Shard { shards, length: elements.div_ceil(shards) }
    }

    pub(crate) fn is_shard(&self) -> bool {
        matches!(self, Layout::Shard { .. })
    }

    /// Sums a gradient over the cores; of a shard, each keeps its own part.
    pub(crate) fn reduce(
        &self,
        gradient: &Tensor,
        groups: &[Vec<usize>],
    ) -> traind_xla::Result<Tensor> {
        match *self {
            Layout::Whole => gradient.all_reduce(ReduceKind::Sum, groups),
            Layout::Shard { shards, length } => {
                let elements = gradient.shape().element_count();
                let flat = gradient.reshape(&[elements])?;
                let padding = shards * length - elements;
                let padded = if padding == 0 { flat } else { flat.pad(0, 0, padding, 0.0)? };
                padded.reduce_scatter(ReduceKind::Sum, 0, groups)
            }
        }
    }

    /// The whole parameter from what each core holds of it.
    fn gather(
        &self,
        held: &Tensor,
        shape: &Shape,
        groups: &[Vec<usize>],
    ) -> traind_xla::Result<Tensor> {
        match self {
            Layout::Whole => Ok(held.clone()),
            Layout::Shard { .. } => {
                let elements = shape.element_count();
                held.all_gather(0, groups)?.slice(0, 0, elements)?.reshape(&shape.dims)
            }
        }
    }

    fn held_shape(&self, shape: &Shape) -> Shape {
        match self {
            Layout::Whole => shape.clone(),
            Layout::Shard { length, .. } => shape.with_dims([*length]),
        }
    }

    fn upload_shards(
        &self,
        device: &mut LazyDevice,
        array: &HostArray,
    ) -> RunResult<Option<Variable>> {
        let Layout::Shard { shards, length } = *self else { return Ok(None) };
        let shape = self.held_shape(array.shape());
        let bytes_per_shard = length * shape.dtype.size_bytes();
        let mut bytes = array.bytes().to_vec();
        bytes.resize(shards * bytes_per_shard, 0);
        let parts: Vec<HostArray> = bytes
            .chunks(bytes_per_shard)
            .map(|part| HostArray::from_bytes(shape.clone(), part.to_vec()))
            .collect::<Result<_, _>>()?;
        let parts: Vec<&HostArray> = parts.iter().collect();
        Ok(Some(device.variable_per_core(&parts)?))
    }

    fn create_slots(
        &self,
        device: &mut LazyDevice,
        optimizer: &dyn Optimizer,
        shape: &Shape,
    ) -> RunResult<Vec<Variable>> {
        let slots = optimizer.slots(&self.held_shape(shape)).into_iter();
        slots.map(|slot| Ok(device.variable(&HostArray::zeros(slot.shape))?)).collect()
    }
}

fn row_offsets(device: &mut LazyDevice, rows_per_core: usize) -> RunResult<Variable> {
    let offset = |core: usize| HostArray::from_u32(&[], &[(core * rows_per_core) as u32]);
    let offsets: Vec<HostArray> =
        (0..device.cores().len()).map(offset).collect::<Result<_, _>>()?;
    let offsets: Vec<&HostArray> = offsets.iter().collect();
    debug_assert!(offsets.iter().all(|offset| offset.shape().dtype == DType::U32));
    Ok(device.variable_per_core(&offsets)?)
}

/// 64 bits of seed in the 32 that device programs work with.
fn fold_seed(seed: u64) -> u32 {
    (seed ^ (seed >> 32)) as u32
}
