//! Records an evaluation step: the forward pass without dropout.

use traind_loader::BatchSizes;
use traind_models::tasks::num_items_in_batch;
use traind_xla::runtime::{Recording, StepInput};

use super::forward::{LastOutput, PassParameters, Passed};
use super::{ForwardPass, Readout};
use crate::error::Result;
use crate::state::TrainState;

/// The sum of losses that is fetched from each core for its own rows, where they have labels.
pub const LOSS_SUM: &str = "loss_sum";
/// The sum of the sample weights on each core.
pub const WEIGHT_SUM: &str = "weight_sum";
/// The divisor of the loss: the labels that the Trainer counts, which may be more than those with a
/// loss.
pub const LOSS_DIVISOR: &str = "loss_divisor";

/// An evaluation: the forward pass and the values that are read back.
#[derive(Clone)]
pub struct EvalStep {
    /// The pass that is evaluated.
    pub forward: ForwardPass,
    /// The values that are read back.
    pub readout: Readout,
}

impl EvalStep {
    /// Returns the step for rows without labels.
    pub(crate) fn unlabelled(&self) -> EvalStep {
        let layout = self.forward.layout.without_targets();
        EvalStep { forward: ForwardPass { layout, ..self.forward.clone() }, ..self.clone() }
    }

    /// The inputs of `chunk` for a batch of `sizes`, in the order in which they are uploaded.
    pub fn inputs(&self, sizes: &BatchSizes, chunk: usize) -> Result<Vec<StepInput>> {
        self.forward.inputs(sizes, [], chunk)
    }

    /// Records `chunk` of the model, the last of which gives the results.
    pub fn record(&self, at: &mut Recording<'_>, state: &TrainState, chunk: usize) -> Result<()> {
        let parameters = state.read_parameters(at, chunk)?;
        let parameters = PassParameters {
            reference: state.reference_tensors(at, &parameters)?,
            trained: state.tensors(at, &parameters)?,
            shard: self.forward.shard(at, state)?,
        };
        let last = match self.forward.record(at, parameters, None, chunk)? {
            Passed::Output(last) => last,
            Passed::States(states) => {
                Passed::send(at, &states);
                return Ok(());
            }
        };
        let batch = self.forward.layout.bind(at);
        let model = self.forward.model.as_ref();
        self.readout.record(at, model.output(), &last, &batch)?;
        let LastOutput { output, preferences } = last.as_ref();
        if let Some(loss) = &output.loss {
            let items = match preferences {
                Some(_) => None,
                None => num_items_in_batch(model, &batch)?,
            };
            at.fetch(LOSS_SUM, &loss.loss_sum);
            at.fetch(WEIGHT_SUM, &loss.weight_sum);
            at.fetch(LOSS_DIVISOR, items.as_ref().unwrap_or(&loss.weight_sum));
        }
        Ok(())
    }
}
