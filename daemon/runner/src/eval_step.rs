//! Records an evaluation step: the forward pass without dropout.

use traind_xla::Tensor;
use traind_xla::runtime::{InputSpec, Recording};

use crate::failure::RunResult;
use crate::forward::ForwardPass;
use crate::state::TrainState;

/// What a step fetches from each core: of its own rows.
pub(crate) const LOGITS: &str = "logits";
pub(crate) const LOSS_SUM: &str = "loss_sum";
pub(crate) const WEIGHT_SUM: &str = "weight_sum";

#[derive(Clone)]
pub(crate) struct EvalStep {
    pub forward: ForwardPass,
}

impl EvalStep {
    pub(crate) fn inputs(&self, rows: usize, positions: usize) -> Vec<InputSpec> {
        self.forward.layout.step_inputs(rows, positions)
    }

    pub(crate) fn record(&self, at: &mut Recording<'_>, state: &TrainState) -> RunResult<()> {
        let parameters: Vec<Tensor> =
            state.parameters().map(|variable| at.read(variable)).collect::<Result<_, _>>()?;
        let output = self.forward.record(at, &parameters, None)?;
        at.fetch(LOGITS, &output.logits);
        if let Some(loss) = &output.loss {
            at.fetch(LOSS_SUM, &loss.loss_sum);
            at.fetch(WEIGHT_SUM, &loss.weight_sum);
        }
        Ok(())
    }
}
