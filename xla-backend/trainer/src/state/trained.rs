//! The part of the state that training changes: another set of values may take its place, while frozen parameters and
//! the reference stay.

use std::collections::BTreeMap;

use traind_models::Error as ModelError;
use traind_xla::runtime::{HostArray, LazyDevice, Variable};

use super::accumulation::{Accumulation, LossScale, ScaleValues};
use super::{ParameterState, StoredSlots, TrainState};
use crate::error::Result;

/// The values that training of one set of parameters starts from.
#[derive(Debug, Default)]
pub(crate) struct TrainedStart {
    /// The trained parameters by name.
    pub parameters: BTreeMap<String, HostArray>,
    /// The slots of a checkpoint; zeros where absent.
    pub slots: Option<StoredSlots>,
    /// The scale of the loss, where it is scaled.
    pub loss_scale: ScaleValues,
}

impl TrainState {
    /// Uploads other trained values.
    pub(crate) fn start_trained(
        &self,
        device: &mut LazyDevice,
        start: &TrainedStart,
    ) -> Result<()> {
        for parameter in self.parameters.iter().filter(|parameter| parameter.is_trained()) {
            let missing = || ModelError::MissingWeight { name: parameter.name().to_owned() };
            let array = start.parameters.get(parameter.name()).ok_or_else(missing)?;
            parameter.start(device, array, start.slots.as_ref())?;
        }
        if let Some(sums) = &self.accumulation {
            sums.start(device)?;
        }
        self.loss_scale.as_ref().map_or(Ok(()), |scale| scale.start(device, start.loss_scale))
    }

    /// The variables of the sums over the batches of a step, which are zero between steps.
    pub(crate) fn sums(&self) -> impl Iterator<Item = Variable> {
        let gradients = self.parameters.iter().filter_map(ParameterState::gradient_sum);
        gradients.chain(self.accumulation.iter().flat_map(Accumulation::sums))
    }

    /// The variables that training changes, the sums among them.
    pub(crate) fn trained_variables(&self) -> impl Iterator<Item = Variable> {
        let trained = self.parameters.iter().filter(|parameter| parameter.is_trained());
        let values = trained.clone().map(ParameterState::variable);
        let slots = trained.flat_map(ParameterState::optimizer_variables);
        let scale = self.loss_scale.iter().flat_map(LossScale::variables);
        values.chain(slots).chain(self.sums()).chain(scale)
    }
}
