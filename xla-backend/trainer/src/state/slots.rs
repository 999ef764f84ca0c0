//! The optimizer's slots by name: in parts on the hosts, in their distribution on the cores. A checkpoint has whole
//! slots, in one file or in the parts of hosts, so that any number of cores can resume from it.

use std::ops::Range;
use std::path::PathBuf;

use traind_models::optimizers::{Optimizer, Slot};
use traind_models::weights::{ArrayPart, StoredArrays};
use traind_models::{ParameterSpec, Sharding};
use traind_xla::Shape;
use traind_xla::runtime::{HostArray, LazyDevice, Recorder, Variable};

use super::{Distribution, set_zeros};
use crate::error::{Error, Result};

/// The name among the slots of a checkpoint for a trained parameter, where the saved one is another.
pub(crate) fn trained_name(parameter: &str) -> String {
    format!("{parameter}.trained")
}

/// The slots of a checkpoint by `<parameter>.<slot>`, which are read when they are put on the cores.
#[derive(Debug)]
pub struct StoredSlots {
    /// The folder of the checkpoint.
    pub folder: PathBuf,
    /// The slots' values.
    pub arrays: StoredArrays,
}

/// One slot of one parameter.
#[derive(Clone, Debug)]
pub(crate) struct HeldSlot {
    pub name: String,
    pub variable: Variable,
    distribution: Distribution,
}

impl HeldSlot {
    /// Copies what this host holds of the slot to the host.
    pub(super) fn read(&self, device: &LazyDevice) -> Result<ArrayPart> {
        self.distribution.read(device, self.variable)
    }

    /// Whether this host saves what it holds.
    pub(crate) fn is_saved_here(&self) -> bool {
        self.distribution.is_saved_here()
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
    ) -> Result<()> {
        match stored {
            None => set_zeros(device, self.variable),
            Some(stored) => {
                let ranges = self.distribution.held_ranges();
                let part = stored.read(&self.name, self.shape(), &ranges)?;
                self.distribution.set_part(device, self.variable, &part)
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
    let slots = optimizer.slots(spec).into_iter().map(|Slot { name, shape }| {
        // A slot of another shape belongs to an optimizer that updates whole parameters alone.
        let distribution = match shape == spec.shape {
            true => of_parameter.clone(),
            false => Distribution::replicated(Sharding::none(shape), recorder.mesh().data_place()),
        };
        let name = format!("{}.{name}", spec.name);
        let variable = recorder.declare(&name, distribution.held_shape());
        HeldSlot { name, variable, distribution }
    });
    slots.collect()
}

impl StoredSlots {
    /// Takes the trained parameters, where the saved ones are others; both are in the order of `names`.
    pub fn take_trained<'a>(
        &self,
        names: impl Iterator<Item = &'a str>,
        saved: &mut [HostArray],
    ) -> Result<()> {
        for (name, array) in names.zip(saved) {
            let name = trained_name(name);
            if self.arrays.shape(&name).is_some() {
                *array = self.arrays.array(&name)?;
            }
        }
        Ok(())
    }

    fn read(&self, name: &str, shape: &Shape, ranges: &[Range<usize>]) -> Result<ArrayPart> {
        self.check(name, shape)?;
        Ok(self.arrays.read(name, ranges)?)
    }

    /// Refuses slots without this one.
    pub(crate) fn check(&self, name: &str, shape: &Shape) -> Result<()> {
        match self.arrays.shape(name) {
            Some(found) if found == *shape => Ok(()),
            Some(found) => Err(self.other(format!("its {name} is {found}, not {shape}"))),
            None => Err(self.other(format!("it has no {name}"))),
        }
    }

    /// Refuses slots besides those `expected`.
    pub(crate) fn check_no_others(&self, expected: impl Fn(&str) -> bool) -> Result<()> {
        let other = self.arrays.names().into_iter().find(|name| !expected(name));
        other.map_or(Ok(()), |name| Err(self.other(format!("the optimizer has no {name}"))))
    }

    fn other(&self, problem: String) -> Error {
        Error::OtherSlots { folder: self.folder.clone(), problem }
    }
}
