//! The optimizer's slots by name: whole on the host, in their distribution on the cores. A checkpoint
//! has no shards, so that any number of cores can resume from it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use traind_models::optimizers::{Optimizer, Slot};
use traind_models::{ParameterSpec, Sharding};
use traind_xla::Shape;
use traind_xla::runtime::{HostArray, LazyDevice, Recorder, Variable};

use super::{Distribution, set_zeros};
use crate::error::{RunError, RunResult};

/// Whole slots by `<parameter>.<slot>`.
pub(crate) type SlotArrays = BTreeMap<String, HostArray>;

/// The name among the slots of a checkpoint for a trained parameter, where the saved one is another.
pub(crate) fn trained_name(parameter: &str) -> String {
    format!("{parameter}.trained")
}

/// The slots of a checkpoint.
#[derive(Debug)]
pub(crate) struct StoredSlots {
    pub folder: PathBuf,
    pub arrays: SlotArrays,
}

/// One slot of one parameter.
#[derive(Clone, Debug)]
pub(crate) struct HeldSlot {
    pub name: String,
    pub variable: Variable,
    distribution: Distribution,
}

impl HeldSlot {
    /// Copies the whole slot to the host.
    pub(super) fn read(&self, device: &LazyDevice) -> RunResult<HostArray> {
        self.distribution.read(device, self.variable)
    }

    /// The shape of the whole slot.
    pub(super) fn shape(&self) -> &Shape {
        self.distribution.whole_shape()
    }

    /// The bytes of a core's part.
    pub(super) fn held_bytes(&self) -> usize {
        self.distribution.held_shape().size_bytes()
    }

    /// Sets the slot to its value in a checkpoint, or to zeros.
    pub(super) fn start(
        &self,
        device: &mut LazyDevice,
        stored: Option<&StoredSlots>,
    ) -> RunResult<()> {
        match stored {
            None => set_zeros(device, self.variable),
            Some(stored) => {
                let array = stored.find(&self.name, self.shape())?;
                self.distribution.set(device, self.variable, array)
            }
        }
    }
}

/// Declares the slots of one parameter.
pub(super) fn declare(
    recorder: &mut Recorder,
    optimizer: &dyn Optimizer,
    spec: &ParameterSpec,
    of_parameter: &Distribution,
) -> Vec<HeldSlot> {
    let slots = optimizer.slots(&spec.shape).into_iter().map(|Slot { name, shape }| {
        // A slot of another shape belongs to an optimizer that updates whole parameters alone.
        let distribution = match shape == spec.shape {
            true => of_parameter.clone(),
            false => Distribution::replicated(Sharding::none(shape)),
        };
        let name = format!("{}.{name}", spec.name);
        let variable = recorder.declare(&name, distribution.held_shape());
        HeldSlot { name, variable, distribution }
    });
    slots.collect()
}

impl StoredSlots {
    /// Takes the trained parameters, where the saved ones are others; both are in the order of `names`.
    pub(crate) fn take_trained<'a>(
        &mut self,
        names: impl Iterator<Item = &'a str>,
        saved: &mut [HostArray],
    ) {
        for (name, array) in names.zip(saved) {
            if let Some(trained) = self.arrays.remove(&trained_name(name)) {
                *array = trained;
            }
        }
    }

    fn find(&self, name: &str, shape: &Shape) -> RunResult<&HostArray> {
        let problem = match self.arrays.get(name) {
            Some(array) if array.shape() == shape => return Ok(array),
            Some(array) => format!("its {name} is {}, not {shape}", array.shape()),
            None => format!("it has no {name}"),
        };
        Err(RunError::CheckpointMismatch { path: self.folder.clone(), problem })
    }
}
