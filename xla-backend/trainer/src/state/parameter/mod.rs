//! One parameter on the cores: its value and, where it is trained, the
//! optimizer's state and the sum of its gradients.

mod combined;
mod gradient;
mod part_cores;
mod training;
mod update;

use traind_models::weights::{ArrayPart, ArrayParts};
use traind_models::{ParameterSpec, Sharding};
use traind_xla::mesh::Axis;
use traind_xla::runtime::{HostArray, LazyDevice, Recorder, Recording, Variable};
use traind_xla::{Shape, Tensor};

pub(crate) use gradient::Gradient;
pub(super) use training::Declaration;
pub(crate) use update::{ParameterUpdate, ShardNumbers};

use super::layout::Shards;
use super::slots::HeldSlot;
use super::{Distribution, StateBytes, StoredSlots};
use crate::error::Result;
use training::Training;

/// A parameter on the cores of a stage, with all that its update needs.
#[derive(Clone, Debug)]
pub struct ParameterState {
    name: String,
    place: Place,
    /// The distribution of the value: a shard where cores share the parameters.
    distribution: Distribution,
    value: Variable,
    /// The value of the reference, where that has one of its own.
    reference: Option<Variable>,
    /// Absent where the parameter is frozen.
    training: Option<Training>,
}

/// The place of a parameter in the model and in the pipeline.
#[derive(Clone, Debug)]
pub struct Place {
    /// The place among the parameters of the model.
    pub index: usize,
    /// The chunks of the stage that read it.
    pub readers: Vec<usize>,
    /// Whether the stage updates it. Another does where a parameter is tied to one of its own.
    pub is_owned: bool,
}

/// A parameter and its value in a recorded program.
#[derive(Debug)]
pub(crate) struct ParameterValue<'a> {
    pub parameter: &'a ParameterState,
    pub value: Tensor,
}

impl ParameterState {
    pub(super) fn declare(
        recorder: &mut Recorder,
        spec: &ParameterSpec,
        place: Place,
        declaration: &Declaration<'_>,
    ) -> Result<ParameterState> {
        let sharding = Sharding::of(spec, recorder.mesh().size(Axis::Tensor))?;
        let is_sharded = declaration.fsdp.shards_parameters();
        let shards = if is_sharded { declaration.shards } else { Shards::ONE };
        let host = recorder.mesh().data_place();
        let distribution = Distribution::sharded(sharding.clone(), shards, host);
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
    pub fn index(&self) -> usize {
        self.place.index
    }

    /// Whether the stage updates it.
    pub fn is_owned(&self) -> bool {
        self.place.is_owned
    }

    /// Whether training changes it.
    pub(super) fn is_trained(&self) -> bool {
        self.training.is_some()
    }

    pub(super) fn is_read_by(&self, chunk: usize) -> bool {
        self.place.readers.contains(&chunk)
    }

    /// The variable of the value.
    pub fn variable(&self) -> Variable {
        self.value
    }

    /// Sets the parameter to `array`, and its training state to that of a checkpoint, or to zeros.
    pub(super) fn start(
        &self,
        device: &mut LazyDevice,
        array: &HostArray,
        slots: Option<&StoredSlots>,
    ) -> Result<()> {
        self.set(device, array)?;
        self.training.as_ref().map_or(Ok(()), |training| training.start(device, slots))
    }

    /// Sets the whole value of the reference, if that has one of its own.
    pub(super) fn start_reference(&self, device: &mut LazyDevice, array: &HostArray) -> Result<()> {
        let Some(reference) = self.reference else { return Ok(()) };
        self.distribution.set(device, reference, array)
    }

    /// The parameter's name in the model.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the whole value, but not what the optimizer keeps of it.
    pub fn set(&self, device: &mut LazyDevice, array: &HostArray) -> Result<()> {
        self.distribution.set(device, self.value, array)
    }

    /// The shape that layers read, where the value is a shard.
    pub(super) fn gathered_shape(&self) -> Option<Shape> {
        let is_shard = self.distribution.layout().is_shard();
        is_shard.then(|| self.distribution.divided_shape())
    }

    /// Sets the parameter to a value of which `part` is what this host holds.
    pub(crate) fn set_part(&self, device: &mut LazyDevice, part: &ArrayPart) -> Result<()> {
        self.distribution.set_part(device, self.value, part)
    }

    /// Copies what this host holds of the value to the host.
    pub fn value(&self, device: &LazyDevice) -> Result<ArrayPart> {
        self.distribution.read(device, self.value)
    }

    /// Whether this host saves what it holds of the value.
    pub(crate) fn is_saved_here(&self) -> bool {
        self.distribution.is_saved_here()
    }

    /// Whether hosts hold different parts of the value, or of what its update needs.
    pub(super) fn is_over_hosts(&self) -> bool {
        let training = self.training.iter().map(|training| &training.distribution);
        training.chain([&self.distribution]).any(Distribution::is_over_hosts)
    }

    /// Whether passes exchange parts of the value or of its gradient with other hosts.
    pub(super) fn passes_reach_hosts(&self) -> bool {
        let reduced = self.training.iter().filter(|training| training.sums_reduced);
        let gradients = reduced.map(|training| &training.distribution);
        gradients.chain([&self.distribution]).any(Distribution::is_over_hosts)
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

    /// The names of the slots in a checkpoint, with the shapes of whole ones.
    pub(crate) fn slot_shapes(&self) -> impl Iterator<Item = (&str, &Shape)> {
        let slots = self.training.iter().flat_map(|training| &training.slots);
        slots.map(|slot| (slot.name.as_str(), slot.shape()))
    }

    /// The variables that only the update reads.
    pub(super) fn optimizer_variables(&self) -> impl Iterator<Item = Variable> {
        let training = self.training.iter();
        training.flat_map(|it| it.slots.iter().map(|slot| slot.variable))
    }

    /// The bytes of these variables on a core.
    pub(super) fn optimizer_bytes(&self) -> u64 {
        let Some(training) = &self.training else { return 0 };
        training.slots.iter().map(HeldSlot::held_bytes).sum::<usize>() as u64
    }

    /// Adds the parameter's share to the sizes of the state.
    pub(super) fn add_bytes(&self, recorder: &Recorder, bytes: &mut StateBytes) {
        let held = |variable: Variable| recorder.shape(variable).size_bytes() as u64;
        let reference = self.reference.map_or(0, held);
        bytes.reference += reference;
        bytes.parameters += held(self.value) + reference;
        let Some(training) = &self.training else { return };
        bytes.gradients += training.distribution.held_shape().size_bytes() as u64;
        bytes.gradient_sums += training.gradient_sum.map_or(0, held);
        bytes.slots += training.slots.iter().map(|slot| held(slot.variable)).sum::<u64>();
        bytes.slots_whole += self.slot_bytes() as u64;
    }

    pub(super) fn read(&self, at: &mut Recording<'_>) -> Result<ParameterValue<'_>> {
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

    pub(super) fn read_slots(
        &self,
        device: &LazyDevice,
        wanted: &impl Fn(&HeldSlot) -> bool,
        parts: &mut ArrayParts,
    ) -> Result<()> {
        let Some(training) = &self.training else { return Ok(()) };
        for slot in training.slots.iter().filter(|slot| wanted(slot)) {
            parts.insert(slot.name.clone(), slot.read(device)?);
        }
        Ok(())
    }
}

impl ParameterValue<'_> {
    /// The value of the reference, which is that of the parameter where it is not trained.
    pub(super) fn reference(&self, at: &mut Recording<'_>) -> Result<Tensor> {
        match self.parameter.reference {
            Some(reference) => Ok(at.read(reference)?),
            None => Ok(self.value.clone()),
        }
    }
}

#[cfg(test)]
mod tests;
