//! One parameter on the cores: its value and, where it is trained, the
//! optimizer's state and the sum of its gradients.

use traind_job_file::Fsdp;
use traind_models::optimizers::{Optimizer, Scalars, Update};
use traind_models::{ParameterSpec, Sharding, parameter_shards};
use traind_xla::mesh::{Axis, Mesh};
use traind_xla::ops::ReduceKind;
use traind_xla::runtime::{HostArray, LazyDevice, Recorder, Recording, Variable};
use traind_xla::{Shape, Tensor};

use super::slots::{self, HeldSlot};
use super::{Distribution, SlotArrays, StateBytes, StoredSlots, set_zeros};
use crate::error::RunResult;

#[derive(Clone, Debug)]
pub(crate) struct ParameterState {
    name: String,
    place: Place,
    /// That of the value: a shard where cores share the parameters.
    distribution: Distribution,
    value: Variable,
    /// The value of the reference, where that has one of its own.
    reference: Option<Variable>,
    /// Absent where the parameter is frozen.
    training: Option<Training>,
}

/// The place of a parameter in the model and in the pipeline.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Among the parameters of the model.
    pub index: usize,
    /// The chunks of the stage that read it.
    pub readers: Vec<usize>,
    /// Whether the stage updates it. Another does where a parameter is tied to one of its own.
    pub is_owned: bool,
}

/// The state that the update of a parameter needs.
#[derive(Clone, Debug)]
struct Training {
    /// That of the reduced gradient, and of what the optimizer updates.
    distribution: Distribution,
    /// The shard that this core updates, where the distribution has any and the value is whole.
    shard: Option<Variable>,
    slots: Vec<HeldSlot>,
    /// f32, where a step takes several programs.
    gradient_sum: Option<Variable>,
    /// Whether the gradient is a sum over the cores of the `tensor` axis too.
    adds_tensor_cores: bool,
    /// Whether the sum is of reduced gradients, and not of those of the core's own rows.
    sums_reduced: bool,
    weight_decay: bool,
    /// Whether a checkpoint has the trained value beside another one that is evaluated.
    saves_trained: bool,
}

/// How the state of each parameter is declared.
pub(super) struct Declaration<'a> {
    pub optimizer: &'a dyn Optimizer,
    pub fsdp: Fsdp,
    /// The number of cores that share what `fsdp` shards.
    pub shards: usize,
    pub accumulates: bool,
    /// Whether cores that share layers divide the positions between them.
    pub divides_positions: bool,
}

/// A parameter and its value in a recorded program.
#[derive(Debug)]
pub(crate) struct ParameterValue<'a> {
    pub parameter: &'a ParameterState,
    pub value: Tensor,
}

/// A trained parameter and its gradient in a recorded program.
#[derive(Clone, Debug)]
pub(crate) struct Gradient<'a> {
    parameter: &'a ParameterState,
    training: &'a Training,
    pub value: Tensor,
    /// The cores whose gradients are added in it.
    over: Cores,
}

/// The cores over which a gradient is summed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cores {
    /// Its own alone: each core has the gradient of its rows.
    Own,
    /// Those of this host, each of which has a shard of the sum.
    Host,
    /// All cores of the job.
    Job,
}

/// The arguments that the updates of all parameters share.
#[derive(Clone, Copy)]
pub(crate) struct ParameterUpdate<'a> {
    pub optimizer: &'a dyn Optimizer,
    pub scalars: &'a Scalars,
    /// A condition without which nothing changes.
    pub only_if: Option<&'a Tensor>,
    pub mesh: &'a Mesh,
}

impl ParameterState {
    pub(super) fn declare(
        recorder: &mut Recorder,
        spec: &ParameterSpec,
        place: Place,
        declaration: &Declaration<'_>,
    ) -> RunResult<ParameterState> {
        let sharding = Sharding::of(spec, recorder.mesh().size(Axis::Tensor))?;
        let shards = if declaration.fsdp.shards_parameters() { declaration.shards } else { 1 };
        let distribution = Distribution::sharded(sharding.clone(), shards);
        let value = recorder.declare(&spec.name, distribution.held_shape());
        let is_owned = place.is_owned;
        let declare = || Training::declare(recorder, spec, sharding, is_owned, declaration);
        let training = spec.trainable.then(declare);
        let (name, reference) = (spec.name.clone(), None);
        Ok(ParameterState { name, place, distribution, value, reference, training })
    }

    /// Declares a value of the reference, which is distributed as the trained one.
    pub(super) fn with_reference(self, recorder: &mut Recorder) -> ParameterState {
        let name = format!("{}.reference", self.name);
        let reference = Some(recorder.declare(name, self.distribution.held_shape()));
        ParameterState { reference, ..self }
    }

    /// The place among the parameters of the model.
    pub(crate) fn index(&self) -> usize {
        self.place.index
    }

    /// Whether the stage updates it.
    pub(crate) fn is_owned(&self) -> bool {
        self.place.is_owned
    }

    pub(super) fn is_read_by(&self, chunk: usize) -> bool {
        self.place.readers.contains(&chunk)
    }

    /// The variable of the value.
    pub(crate) fn variable(&self) -> Variable {
        self.value
    }

    /// Sets the parameter to `array`, and its training state to that of a checkpoint, or to zeros.
    pub(super) fn start(
        &self,
        device: &mut LazyDevice,
        array: &HostArray,
        slots: Option<&StoredSlots>,
    ) -> RunResult<()> {
        self.set(device, array)?;
        self.training.as_ref().map_or(Ok(()), |training| training.start(device, array, slots))
    }

    /// Sets the whole value of the reference, if that has one of its own.
    pub(super) fn start_reference(
        &self,
        device: &mut LazyDevice,
        array: &HostArray,
    ) -> RunResult<()> {
        let Some(reference) = self.reference else { return Ok(()) };
        self.distribution.set(device, reference, array)
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Sets the whole value, but not what the optimizer keeps of it.
    pub(crate) fn set(&self, device: &mut LazyDevice, array: &HostArray) -> RunResult<()> {
        self.distribution.set(device, self.value, array)
    }

    /// The shape that layers read, where the value is a shard.
    pub(super) fn gathered_shape(&self) -> Option<Shape> {
        let is_shard = self.distribution.layout().is_shard();
        is_shard.then(|| self.distribution.divided_shape())
    }

    /// Copies the whole value to the host.
    pub(crate) fn value(&self, device: &LazyDevice) -> RunResult<HostArray> {
        self.distribution.read(device, self.value)
    }

    /// The bytes of the whole parameter.
    pub(super) fn size_bytes(&self) -> usize {
        self.distribution.whole_shape().size_bytes()
    }

    /// The bytes of the whole slots in a checkpoint, which may have the trained value besides.
    pub(super) fn slot_bytes(&self) -> usize {
        let Some(training) = &self.training else { return 0 };
        let slots = training.slots.iter().map(|slot| slot.shape().size_bytes()).sum::<usize>();
        slots + if training.saves_trained { self.size_bytes() } else { 0 }
    }

    /// The variables that only the update reads.
    pub(super) fn optimizer_variables(&self) -> impl Iterator<Item = Variable> {
        let training = self.training.iter();
        training.flat_map(|it| it.slots.iter().map(|slot| slot.variable).chain(it.shard))
    }

    /// The bytes of these variables on a core.
    pub(super) fn optimizer_bytes(&self) -> u64 {
        let Some(training) = &self.training else { return 0 };
        let slots = training.slots.iter().map(HeldSlot::held_bytes).sum::<usize>();
        let shard = training.shard.map_or(0, |_| training.distribution.held_shape().size_bytes());
        (slots + shard) as u64
    }

    /// Adds the parameter's share to the sizes of the state.
    pub(super) fn add_bytes(&self, recorder: &Recorder, bytes: &mut StateBytes) {
        let held = |variable: Variable| recorder.shape(variable).size_bytes() as u64;
        let reference = self.reference.map_or(0, held);
        bytes.reference += reference;
        bytes.parameters += held(self.value) + reference;
        let Some(training) = &self.training else { return };
        bytes.parameters += training.shard.map_or(0, held);
        bytes.gradients += training.distribution.held_shape().size_bytes() as u64;
        bytes.gradient_sums += training.gradient_sum.map_or(0, held);
        bytes.slots += training.slots.iter().map(|slot| held(slot.variable)).sum::<u64>();
        bytes.slots_whole += self.slot_bytes() as u64;
    }

    pub(super) fn read(&self, at: &mut Recording<'_>) -> RunResult<ParameterValue<'_>> {
        Ok(ParameterValue { parameter: self, value: at.read(self.value)? })
    }

    pub(crate) fn gradient_sum(&self) -> Option<Variable> {
        self.training.as_ref()?.gradient_sum
    }

    /// The shape of the gradient sum on a core, where the parameter is trained.
    pub(crate) fn sum_shape(&self) -> Option<Shape> {
        let training = self.training.as_ref()?;
        Some(match training.sums_reduced {
            true => training.distribution.held_shape(),
            false => training.distribution.divided_shape(),
        })
    }

    pub(super) fn read_gradient_sum(
        &self,
        at: &mut Recording<'_>,
    ) -> Option<RunResult<Gradient<'_>>> {
        let training = self.training.as_ref().filter(|_| self.is_owned())?;
        let sum = at.read(training.gradient_sum?);
        let over = if training.sums_reduced { Cores::Host } else { Cores::Own };
        let gradient = |value| Gradient { parameter: self, training, value, over };
        Some(sum.map(gradient).map_err(Into::into))
    }

    pub(super) fn read_slots(
        &self,
        device: &LazyDevice,
        wanted: &impl Fn(&str) -> bool,
        arrays: &mut SlotArrays,
    ) -> RunResult<()> {
        let Some(training) = &self.training else { return Ok(()) };
        for slot in training.slots.iter().filter(|slot| wanted(&slot.name)) {
            arrays.insert(slot.name.clone(), slot.read(device)?);
        }
        Ok(())
    }
}

impl ParameterValue<'_> {
    /// The value of the reference, which is that of the parameter where it is not trained.
    pub(super) fn reference(&self, at: &mut Recording<'_>) -> RunResult<Tensor> {
        match self.parameter.reference {
            Some(reference) => Ok(at.read(reference)?),
            None => Ok(self.value.clone()),
        }
    }
}

impl Training {
    fn declare(
        recorder: &mut Recorder,
        spec: &ParameterSpec,
        sharding: Sharding,
        is_owned: bool,
        declaration: &Declaration<'_>,
    ) -> Training {
        let distribution = Distribution::sharded(sharding, declaration.shards);
        let named = |part: &str| format!("{}.{part}", spec.name);
        let is_shard = distribution.layout().is_shard();
        let (fsdp, held) = (declaration.fsdp, distribution.held_shape());
        let sums_reduced = is_shard && fsdp.shards_gradients();
        let sum = if sums_reduced { held.clone() } else { distribution.divided_shape() };
        let has_copy = is_owned && is_shard && !fsdp.shards_parameters();
        Training {
            shard: has_copy.then(|| recorder.declare(named("shard"), held)),
            slots: match is_owned {
                true => slots::declare(recorder, declaration.optimizer, spec, &distribution),
                false => Vec::new(),
            },
            gradient_sum: declaration
                .accumulates
                .then(|| recorder.declare(named("gradient_sum"), sum)),
            adds_tensor_cores: recorder.mesh().size(Axis::Tensor) > 1
                && spec.adds_gradients(declaration.divides_positions),
            sums_reduced,
            weight_decay: spec.weight_decay(),
            saves_trained: is_owned && declaration.optimizer.evaluated_offset().is_some(),
            distribution,
        }
    }

    fn start(
        &self,
        device: &mut LazyDevice,
        array: &HostArray,
        slots: Option<&StoredSlots>,
    ) -> RunResult<()> {
        if let Some(shard) = self.shard {
            self.distribution.set(device, shard, array)?;
        }
        self.gradient_sum.map_or(Ok(()), |sum| set_zeros(device, sum))?;
        self.slots.iter().try_for_each(|slot| slot.start(device, slots))
    }
}

impl<'a> Gradient<'a> {
    /// The gradients of `loss`, a scalar, with respect to the trained ones of `parameters`.
    pub(crate) fn of_loss(
        loss: &Tensor,
        parameters: &[ParameterValue<'a>],
    ) -> RunResult<Vec<Gradient<'a>>> {
        Ok(Gradient::and_those_of(&[], loss, parameters)?.0)
    }

    /// The same, and the gradients with respect to `others`.
    pub(crate) fn and_those_of(
        others: &[&Tensor],
        loss: &Tensor,
        parameters: &[ParameterValue<'a>],
    ) -> RunResult<(Vec<Gradient<'a>>, Vec<Tensor>)> {
        let trained: Vec<(&'a ParameterState, &'a Training, &Tensor)> = parameters
            .iter()
            .filter_map(|it| Some((it.parameter, it.parameter.training.as_ref()?, &it.value)))
            .collect();
        let values = trained.iter().map(|(.., value)| *value);
        let wrt: Vec<&Tensor> = values.chain(others.iter().copied()).collect();
        let mut gradients = traind_xla::autodiff::gradients(loss, &wrt)?;
        let of_others = gradients.split_off(trained.len());
        let gradients =
            gradients.into_iter().zip(trained).map(|(value, (parameter, training, _))| Gradient {
                parameter,
                training,
                value,
                // A shard's is a part of the sum over `data`.
                over: match parameter.distribution.layout().is_shard() {
                    true if !training.adds_tensor_cores => Cores::Host,
                    _ => Cores::Own,
                },
            });
        Ok((gradients.collect(), of_others))
    }

    /// The place of the parameter among those of the model.
    pub(crate) fn index(&self) -> usize {
        self.parameter.index()
    }

    /// The sum with that of another stage, which reads the same parameter.
    pub(crate) fn plus(self, other: &Tensor) -> RunResult<Gradient<'a>> {
        Ok(Gradient { value: self.value.add(other)?, ..self })
    }

    /// Records that the sum is kept for the program that updates: reduced, unless a shard of the whole
    /// sum is, which has another shape.
    pub(crate) fn store(&self, at: &mut Recording<'_>, reduced: &Gradient<'_>) -> RunResult<()> {
        let Some(sum) = self.training.gradient_sum else { return Ok(()) };
        let kept = if self.stores_reduced() { &reduced.value } else { &self.value };
        Ok(at.assign(sum, kept)?)
    }

    /// A sum that was kept by [`Gradient::store`].
    pub(super) fn stored(self) -> Gradient<'a> {
        Gradient { over: if self.stores_reduced() { Cores::Job } else { Cores::Own }, ..self }
    }

    fn stores_reduced(&self) -> bool {
        self.training.sums_reduced || !self.training.distribution.layout().is_shard()
    }

    /// The axes along which cores have different parts of the reduced gradient.
    pub(crate) fn axes(&self) -> Vec<Axis> {
        self.training.distribution.axes()
    }

    /// The number of cores along these axes that have the same part.
    pub(crate) fn copies(&self) -> usize {
        self.training.distribution.copies()
    }

    /// Sums the gradient over all cores; each keeps its own shard, if there are any. Hosts have the
    /// same shards.
    pub(crate) fn reduced(self, mesh: &Mesh) -> RunResult<Gradient<'a>> {
        let on_host = self.reduced_on_host(mesh)?;
        if on_host.over == Cores::Job || mesh.hosts() == 1 {
            return Ok(on_host);
        }
        let value = on_host.value.all_reduce_hosts(ReduceKind::Sum, mesh.hosts())?;
        Ok(Gradient { value, over: Cores::Job, ..on_host })
    }

    /// Sums a gradient of which cores keep shards over the cores of this host, and another one over
    /// all.
    fn reduced_on_host(self, mesh: &Mesh) -> RunResult<Gradient<'a>> {
        if self.over != Cores::Own {
            return Ok(self);
        }
        let value = self.sum(mesh)?;
        let is_shard = self.training.distribution.layout().is_shard();
        let over = if is_shard { Cores::Host } else { Cores::Job };
        Ok(Gradient { value, over, ..self })
    }

    fn sum(&self, mesh: &Mesh) -> traind_xla::Result<Tensor> {
        let over_tensor =
            |value: &Tensor| value.all_reduce(ReduceKind::Sum, &mesh.groups(&[Axis::Tensor]));
        let layout = self.training.distribution.layout();
        let is_scattered = self.parameter.distribution.layout().is_shard();
        match (self.training.adds_tensor_cores, is_scattered, layout.is_shard()) {
            (true, true, _) => over_tensor(&self.value),
            (true, false, true) => over_tensor(&layout.reduce(&self.value, mesh)?),
            (true, false, false) => {
                let axes = [Axis::Data, Axis::Tensor];
                self.value.all_reduce_over(ReduceKind::Sum, mesh, &axes)
            }
            (false, ..) => layout.reduce(&self.value, mesh),
        }
    }

    /// Records that the gradient is added to the step's sum.
    pub(crate) fn accumulate(self, at: &mut Recording<'_>, mesh: &Mesh) -> RunResult<()> {
        let Some(sum) = self.training.gradient_sum else { return Ok(()) };
        let reduces = self.training.sums_reduced;
        let gradient = if reduces { self.reduced_on_host(mesh)? } else { self };
        let total = at.read(sum)?.add(&gradient.value)?;
        Ok(at.assign(sum, &total)?)
    }

    /// Records the parameter's update by the reduced gradient times `factor`.
    pub(crate) fn apply(
        &self,
        at: &mut Recording<'_>,
        factor: &Tensor,
        with: &ParameterUpdate<'_>,
    ) -> RunResult<()> {
        let (parameter, training) = (self.parameter, self.training);
        let value = at.read(parameter.value)?;
        let slots: Vec<Tensor> =
            training.slots.iter().map(|slot| at.read(slot.variable)).collect::<Result<_, _>>()?;
        let held = training.shard.map(|shard| at.read(shard)).transpose()?;
        let update = Update {
            parameter: held.as_ref().unwrap_or(&value),
            gradient: &self.value,
            factor: Some(factor),
            slots: &slots,
            scalars: with.scalars,
            weight_decay: training.weight_decay,
        };
        let updated = with.optimizer.update(&update)?;
        let chosen = |new: &Tensor, old: &Tensor| match with.only_if {
            Some(condition) => condition.select(new, old),
            None => Ok(new.clone()),
        };
        for ((slot, old), new) in training.slots.iter().zip(&slots).zip(&updated.slots) {
            at.assign(slot.variable, &chosen(new, old)?)?;
        }
        let next = chosen(&updated.parameter, update.parameter)?;
        let Some(shard) = training.shard else { return Ok(at.assign(parameter.value, &next)?) };
        at.assign(shard, &next)?;
        let groups = with.mesh.groups(&[Axis::Data]);
        let gathered = parameter_shards::gather(&next, value.shape(), &groups)?;
        Ok(at.assign(parameter.value, &gathered)?)
    }
}

#[cfg(test)]
mod tests {
    use traind_models::optimizers::{self, Settings};
    use traind_models::parameters::{Init, ParameterPath, Role};
    use traind_pjrt::{Client, CreateOptions, Plugin};
    use traind_xla::DType;
    use traind_xla::runtime::LocalCores;

    use super::*;

    fn device() -> LazyDevice {
        let plugin = Plugin::load(traind_pjrt::installed_plugin("cpu").unwrap()).unwrap();
        let options = CreateOptions::new().with("cpu_device_count", 1);
        let client = Client::new(plugin, &options).unwrap();
        let mesh = Mesh::data_parallel(1).unwrap();
        LazyDevice::new(LocalCores::of_host(client, mesh).unwrap(), None, false)
    }

    /// A frozen parameter takes part in the loss, and no more: no slot, no sum, no update.
    #[test]
    fn a_frozen_parameter_stays_as_it_is() {
        let mut specs = Vec::new();
        let mut root = ParameterPath::root(&mut specs);
        root.declare("trained", Role::Projection, &[2.into()], Init::Zeros);
        root.at("base").frozen().declare("frozen", Role::Projection, &[2.into()], Init::Zeros);
        let optimizer = optimizers::build("adamw_torch", &Settings::default()).unwrap();
        let declaration = Declaration {
            optimizer: optimizer.as_ref(),
            fsdp: Fsdp::No,
            shards: 1,
            accumulates: true,
            divides_positions: false,
        };
        let mut device = device();
        let start = [1.0, 2.0];
        let array = HostArray::from_f32(&[2], &start).unwrap();
        let states: Vec<ParameterState> = specs
            .iter()
            .enumerate()
            .map(|(index, spec)| {
                let place = Place { index, readers: vec![0], is_owned: true };
                ParameterState::declare(device.recorder_mut(), spec, place, &declaration).unwrap()
            })
            .collect();
        states.iter().for_each(|state| state.start(&mut device, &array, None).unwrap());
        let [trained, frozen] = &states[..] else { panic!("{states:?}") };
        assert!(trained.gradient_sum().is_some() && frozen.gradient_sum().is_none());
        assert_eq!((trained.slot_bytes(), frozen.slot_bytes()), (16, 0));

        let scalars = optimizer.scalars(1, 0.1);
        let mesh = device.cores().mesh().clone();
        let step = device.compile(&[], |at| -> RunResult<()> {
            let values = states.iter().map(|it| it.read(at)).collect::<RunResult<Vec<_>>>()?;
            let loss = values[0].value.mul(&values[1].value)?.sum(&[0])?;
            let packed =
                at.trace().constant(DType::F32, &[scalars.len()], &scalars_of(&scalars))?;
            let scalars = Scalars::split(optimizer.as_ref(), &packed)?;
            let one = at.trace().scalar(1.0, DType::F32)?;
            let with = ParameterUpdate {
                optimizer: optimizer.as_ref(),
                scalars: &scalars,
                only_if: None,
                mesh: &mesh,
            };
            let gradients = Gradient::of_loss(&loss, &values)?;
            assert_eq!(gradients.len(), 1);
            gradients[0].apply(at, &one, &with)
        });
        device.install("step", step.unwrap());
        device.mark_step("step", &vec![Vec::new()]).unwrap().wait().unwrap();
        let value = |of: &ParameterState| of.value(&device).unwrap().to_f32().unwrap();
        assert_eq!(value(frozen), start);
        let expect = start.map(|value| value - 0.1);
        for (got, expect) in value(trained).into_iter().zip(expect) {
            assert!((got - expect).abs() < 1e-6, "{got}, expected {expect}");
        }
    }

    fn scalars_of(scalars: &[f32]) -> Vec<f64> {
        scalars.iter().map(|scalar| f64::from(*scalar)).collect()
    }
}
