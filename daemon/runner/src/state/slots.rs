//! The optimizer's slots by name: whole on the host, in their layout on the cores. A checkpoint has no
//! shards, so that any number of cores can resume from it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use traind_models::ParameterSpec;
use traind_models::optimizers::{Optimizer, Slot};
use traind_xla::Shape;
use traind_xla::runtime::{HostArray, LazyDevice, Recorder, Variable};

use super::{Layout, set, set_zeros};
use crate::error::{RunError, RunResult};

/// Whole slots by `<parameter>.<slot>`.
pub(crate) type SlotArrays = BTreeMap<String, HostArray>;

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
    /// The shape of the whole slot.
    pub shape: Shape,
}

impl HeldSlot {
    /// Copies the whole slot to the host.
    pub(super) fn read(&self, device: &LazyDevice, layout: &Layout) -> RunResult<HostArray> {
        layout.read(device, self.variable, &self.shape)
    }

    /// Sets the slot to its value in a checkpoint, or to zeros.
    pub(super) fn start(
        &self,
        device: &mut LazyDevice,
        layout: &Layout,
        stored: Option<&StoredSlots>,
    ) -> RunResult<()> {
        match stored {
            None => set_zeros(device, self.variable),
            Some(stored) => {
                set(device, self.variable, layout, stored.find(&self.name, &self.shape)?)
            }
        }
    }
}

/// Declares the slots of one parameter.
pub(super) fn declare(
    recorder: &mut Recorder,
    optimizer: &dyn Optimizer,
    spec: &ParameterSpec,
    layout: &Layout,
) -> Vec<HeldSlot> {
    // A sharded slot has the shape of its parameter.
    let slots = optimizer.slots(&spec.shape).into_iter().map(|Slot { name, shape }| {
        let name = format!("{}.{name}", spec.name);
        let variable = recorder.declare(&name, layout.held_shape(&shape));
        HeldSlot { name, variable, shape }
    });
    slots.collect()
}

impl StoredSlots {
    fn find(&self, name: &str, shape: &Shape) -> RunResult<&HostArray> {
        let problem = match self.arrays.get(name) {
            Some(array) if array.shape() == shape => return Ok(array),
            Some(array) => format!("its {name} is {}, not {shape}", array.shape()),
            None => format!("it has no {name}"),
        };
        Err(RunError::CheckpointMismatch { path: self.folder.clone(), problem })
    }
}
