//! Where in its row an answer starts and ends: two classifications over the
//! positions.
//!
//! B rows, S positions.

use traind_xla::{DType, Tensor};

use super::sample_weights::{sample_weights, sample_weights_input, weighted};
use super::token_labels::is_class;
use crate::error::Result;
use crate::model::{Batch, InputDim, InputSpec, LossSum};

const POSITIONS: [&str; 2] = ["start_positions", "end_positions"];

/// `start_positions` and `end_positions` s32[B], and `sample_weights` f32[B].
pub(crate) fn inputs() -> Vec<InputSpec> {
    let position = |name| InputSpec::optional(name, DType::S32, &[InputDim::Rows]);
    let mut inputs = POSITIONS.map(position).to_vec();
    inputs.push(sample_weights_input());
    inputs
}

/// The loss of `logits` f32[B, S, 2], where the batch holds the positions: the
/// mean of the start's and the end's. Positions below zero count as zero, and
/// those behind the row are not counted. Transformers takes the mean over the
/// counted starts and that over the counted ends apart; here they are one, which
/// is the same unless only one end of an answer is behind its row.
pub(crate) fn loss(logits: &Tensor, batch: &Batch) -> Result<Option<LossSum>> {
    let [Some(start), Some(end)] = POSITIONS.map(|name| batch.optional(name)) else {
        return Ok(None);
    };
    let weights = sample_weights(batch)?.mul_scalar(0.5)?;
    let start = position_loss(logits, 0, start, &weights)?;
    let end = position_loss(logits, 1, end, &weights)?;
    Ok(Some(LossSum {
        loss_sum: start.loss_sum.add(&end.loss_sum)?,
        weight_sum: start.weight_sum.add(&end.weight_sum)?,
    }))
}

fn position_loss(
    logits: &Tensor,
    score: usize,
    positions: &Tensor,
    weights: &Tensor,
) -> Result<LossSum> {
    let scores = logits.slice(2, score, score + 1)?.squeeze(2)?;
    let positions = positions.maximum_scalar(0.0)?;
    let counted = is_class(&positions, scores.dims()[1])?.convert(DType::F32)?;
    weighted(&scores.cross_entropy(&positions)?, &counted.mul(weights)?)
}
