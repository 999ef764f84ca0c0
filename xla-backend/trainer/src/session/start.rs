//! The check of values that training starts or continues from: all of them, before any is on the cores.

use std::collections::BTreeMap;

use traind_models::Error as ModelError;
use traind_models::ParameterSpec;
use traind_xla::Shape;
use traind_xla::runtime::HostArray;

use super::Session;
use crate::error::{Error, Result};
use crate::state::{ParameterState, StartValues, StoredSlots};

impl Session {
    /// Refuses values that are not those of the model and of its optimizers.
    pub(super) fn check_start(&self, start: &StartValues) -> Result<()> {
        let specs = self.model().parameters();
        for arrays in [Some(&start.parameters), start.reference.as_ref()].into_iter().flatten() {
            if arrays.len() < specs.len() {
                let (found, expected) = (arrays.len(), specs.len());
                return Err(Error::Count { what: "parameters", found, expected });
            }
            specs.iter().zip(arrays).try_for_each(|(spec, array)| check_shape(spec, array))?;
        }
        start.slots.as_ref().map_or(Ok(()), |slots| self.check_slots(slots))
    }

    /// Refuses slots that lack one of this host's.
    pub(crate) fn check_slots(&self, slots: &StoredSlots) -> Result<()> {
        self.slot_shapes().iter().try_for_each(|(name, shape)| slots.check(name, shape))
    }

    /// The slots of this host's stages, with the shapes of whole ones.
    pub(crate) fn slot_shapes(&self) -> BTreeMap<&str, &Shape> {
        let states = self.programs.states.iter().flat_map(|state| state.parameters());
        states.flat_map(ParameterState::slot_shapes).collect()
    }
}

/// Refuses an array of another shape than the parameter's.
pub(super) fn check_shape(spec: &ParameterSpec, array: &HostArray) -> Result<()> {
    if *array.shape() == spec.shape {
        return Ok(());
    }
    let (found, expected) = (array.shape().clone(), spec.shape.clone());
    Err(ModelError::ArrayShape { name: spec.name.clone(), found, expected }.into())
}
