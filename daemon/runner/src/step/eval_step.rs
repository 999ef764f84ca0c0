//! Records an evaluation step: the forward pass without dropout.

use traind_loader::BatchSizes;
use traind_xla::runtime::{Recording, StepInput};

use super::{ForwardPass, Readout};
use crate::error::RunResult;
use crate::state::TrainState;

/// Fetched from each core for its own rows, where they have labels.
pub(crate) const LOSS_SUM: &str = "loss_sum";
pub(crate) const WEIGHT_SUM: &str = "weight_sum";

#[derive(Clone)]
pub(crate) struct EvalStep {
    pub forward: ForwardPass,
    pub readout: Readout,
}

impl EvalStep {
    /// Returns the step for rows without labels.
    pub(crate) fn unlabelled(&self) -> EvalStep {
        let layout = self.forward.layout.without_targets();
        EvalStep { forward: ForwardPass { layout, ..self.forward.clone() }, ..self.clone() }
    }

    pub(crate) fn inputs(&self, sizes: &BatchSizes) -> Vec<StepInput> {
        self.forward.layout.step_inputs(sizes)
    }

    pub(crate) fn record(&self, at: &mut Recording<'_>, state: &TrainState) -> RunResult<()> {
        let parameters = state.read_parameters(at)?;
        let cores = state.read_tensor_cores(at)?;
        let output = self.forward.record(at, &parameters, cores, None)?;
        let batch = self.forward.layout.bind(at);
        self.readout.record(at, self.forward.model.output(), &output, &batch)?;
        if let Some(loss) = &output.loss {
            at.fetch(LOSS_SUM, &loss.loss_sum);
            at.fetch(WEIGHT_SUM, &loss.weight_sum);
        }
        Ok(())
    }
}
