//! One parameter on the cores: its value and, where it is trained, the
//! optimizer's state and the sum of its gradients.

use traind_models::ParameterSpec;
use traind_models::optimizers::{Optimizer, Scalars, Update};
use traind_xla::mesh::Mesh;
use traind_xla::runtime::{HostArray, LazyDevice, Recorder, Recording, Variable};
use traind_xla::{Shape, Tensor};

use super::slots::{self, HeldSlot};
use super::{Layout, SlotArrays, StateBytes, StoredSlots, set, set_zeros};
use crate::error::RunResult;

#[derive(Clone, Debug)]
pub(crate) struct ParameterState {
    name: String,
    shape: Shape,
    /// The whole parameter, on every core.
    whole: Variable,
    /// Absent where the parameter is frozen.
    training: Option<Training>,
}

/// The state that the update of a parameter needs.
#[derive(Clone, Debug)]
struct Training {
    layout: Layout,
    /// The shard that this core updates, where the layout is one.
    shard: Option<Variable>,
    slots: Vec<HeldSlot>,
    /// f32, of the parameter's shape, where a step takes several programs.
    gradient_sum: Option<Variable>,
    weight_decay: bool,
}

/// How the state of each parameter is declared.
pub(super) struct Declaration<'a> {
    pub optimizer: &'a dyn Optimizer,
    /// The number of cores that share the optimizer's state.
    pub shards: usize,
    pub accumulates: bool,
}

/// A parameter and its value in a recorded program.
#[derive(Debug)]
pub(crate) struct ParameterValue<'a> {
    pub parameter: &'a ParameterState,
    pub value: Tensor,
}

/// A trained parameter and its gradient in a recorded program.
#[derive(Debug)]
pub(crate) struct Gradient<'a> {
    parameter: &'a ParameterState,
    training: &'a Training,
    pub value: Tensor,
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
        declaration: &Declaration<'_>,
    ) -> ParameterState {
        let whole = recorder.declare(&spec.name, spec.shape.clone());
        let training = spec.trainable.then(|| Training::declare(recorder, spec, declaration));
        ParameterState { name: spec.name.clone(), shape: spec.shape.clone(), whole, training }
    }

    /// Sets the parameter to `array`, and its training state to that of a checkpoint, or to zeros.
    pub(super) fn start(
        &self,
        device: &mut LazyDevice,
        array: &HostArray,
        slots: Option<&StoredSlots>,
    ) -> RunResult<()> {
        device.set(self.whole, array)?;
        self.training.as_ref().map_or(Ok(()), |training| training.start(device, array, slots))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn variable(&self) -> Variable {
        self.whole
    }

    /// Copies the whole value to the host.
    pub(crate) fn value(&self, device: &LazyDevice) -> RunResult<HostArray> {
        Layout::Whole.read(device, self.whole, &self.shape)
    }

    pub(super) fn size_bytes(&self) -> usize {
        self.shape.size_bytes()
    }

    /// The bytes of the whole slots.
    pub(super) fn slot_bytes(&self) -> usize {
        let slots = self.training.iter().flat_map(|training| &training.slots);
        slots.map(|slot| slot.shape.size_bytes()).sum()
    }

    /// Adds the parameter's share to the sizes of the state.
    pub(super) fn add_bytes(&self, recorder: &Recorder, bytes: &mut StateBytes) {
        let held = |variable: Variable| recorder.shape(variable).size_bytes() as u64;
        bytes.parameters += held(self.whole);
        let Some(training) = &self.training else { return };
        bytes.parameters += training.shard.map_or(0, held);
        bytes.gradients += training.layout.held_shape(&self.shape).size_bytes() as u64;
        bytes.gradient_sums += training.gradient_sum.map_or(0, held);
        bytes.slots += training.slots.iter().map(|slot| held(slot.variable)).sum::<u64>();
        bytes.slots_whole += self.slot_bytes() as u64;
    }

    pub(super) fn read(&self, at: &mut Recording<'_>) -> RunResult<ParameterValue<'_>> {
        Ok(ParameterValue { parameter: self, value: at.read(self.whole)? })
    }

    pub(super) fn gradient_sum(&self) -> Option<Variable> {
        self.training.as_ref()?.gradient_sum
    }

    pub(super) fn read_gradient_sum(
        &self,
        at: &mut Recording<'_>,
    ) -> Option<RunResult<Gradient<'_>>> {
        let training = self.training.as_ref()?;
        let value = at.read(training.gradient_sum?);
        Some(value.map(|value| Gradient { parameter: self, training, value }).map_err(Into::into))
    }

    pub(super) fn read_slots(&self, device: &LazyDevice, arrays: &mut SlotArrays) -> RunResult<()> {
        let Some(training) = &self.training else { return Ok(()) };
        for slot in &training.slots {
            arrays.insert(slot.name.clone(), slot.read(device, &training.layout)?);
        }
        Ok(())
    }
}

impl Training {
    fn declare(
        recorder: &mut Recorder,
        spec: &ParameterSpec,
        declaration: &Declaration<'_>,
    ) -> Training {
        let layout = Layout::of(&spec.shape, declaration.shards);
        let held = layout.held_shape(&spec.shape);
        let named = |part: &str| format!("{}.{part}", spec.name);
        Training {
            shard: layout.is_shard().then(|| recorder.declare(named("shard"), held)),
            slots: slots::declare(recorder, declaration.optimizer, spec, &layout),
            gradient_sum: declaration
                .accumulates
                .then(|| recorder.declare(named("gradient_sum"), spec.shape.clone())),
            weight_decay: spec.weight_decay(),
            layout,
        }
    }

    fn start(
        &self,
        device: &mut LazyDevice,
        array: &HostArray,
        slots: Option<&StoredSlots>,
    ) -> RunResult<()> {
        if let Some(shard) = self.shard {
            set(device, shard, &self.layout, array)?;
        }
        self.gradient_sum.map_or(Ok(()), |sum| set_zeros(device, sum))?;
        self.slots.iter().try_for_each(|slot| slot.start(device, &self.layout, slots))
    }
}

impl<'a> Gradient<'a> {
    /// The gradients of `loss`, a scalar, with respect to the trained ones of `parameters`.
    pub(crate) fn of_loss(
        loss: &Tensor,
        parameters: &[ParameterValue<'a>],
    ) -> RunResult<Vec<Gradient<'a>>> {
        let trained: Vec<(&'a ParameterState, &'a Training, &Tensor)> = parameters
            .iter()
            .filter_map(|it| Some((it.parameter, it.parameter.training.as_ref()?, &it.value)))
            .collect();
        let wrt: Vec<&Tensor> = trained.iter().map(|(.., value)| *value).collect();
        let gradients = traind_xla::autodiff::gradients(loss, &wrt)?.into_iter().zip(trained);
        let gradients = gradients.map(|(value, (parameter, training, _))| Gradient {
            parameter,
            training,
            value,
        });
        Ok(gradients.collect())
    }

    /// Whether each core has only a shard of the reduced gradient.
    pub(crate) fn is_shard(&self) -> bool {
        self.training.layout.is_shard()
    }

    /// Sums the gradient over all cores; each keeps its own shard, if there are any.
    pub(crate) fn reduced(self, mesh: &Mesh) -> RunResult<Gradient<'a>> {
        let value = self.training.layout.reduce(&self.value, mesh)?;
        Ok(Gradient { value, ..self })
    }

    /// Records that the gradient is added to the step's sum.
    pub(crate) fn accumulate(&self, at: &mut Recording<'_>) -> RunResult<()> {
        let Some(sum) = self.training.gradient_sum else { return Ok(()) };
        let total = at.read(sum)?.add(&self.value)?;
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
        let gradient = self.value.mul(factor)?;
        let chosen = |new: &Tensor, old: &Tensor| match with.only_if {
            Some(condition) => condition.select(new, old),
            None => Ok(new.clone()),
        };
        let whole = at.read(parameter.whole)?;
        let slots: Vec<Tensor> =
            training.slots.iter().map(|slot| at.read(slot.variable)).collect::<Result<_, _>>()?;
        let held = training.shard.map(|shard| at.read(shard)).transpose()?;
        let updated = with.optimizer.update(&Update {
            parameter: held.as_ref().unwrap_or(&whole),
            gradient: &gradient,
            slots: &slots,
            scalars: with.scalars,
            weight_decay: training.weight_decay,
        })?;
        for ((slot, old), new) in training.slots.iter().zip(&slots).zip(&updated.slots) {
            at.assign(slot.variable, &chosen(new, old)?)?;
        }
        let value = chosen(&updated.parameter, held.as_ref().unwrap_or(&whole))?;
        if let Some(shard) = training.shard {
            at.assign(shard, &value)?;
        }
        let gathered = training.layout.gather(&value, &parameter.shape, with.mesh)?;
        Ok(at.assign(parameter.whole, &gathered)?)
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
        let declaration =
            Declaration { optimizer: optimizer.as_ref(), shards: 1, accumulates: true };
        let mut device = device();
        let start = [1.0, 2.0];
        let array = HostArray::from_f32(&[2], &start).unwrap();
        let states: Vec<ParameterState> = specs
            .iter()
            .map(|spec| ParameterState::declare(device.recorder_mut(), spec, &declaration))
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
