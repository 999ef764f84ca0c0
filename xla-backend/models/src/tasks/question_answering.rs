//! Extractive question answering: two classifications over the positions of a
//! row, for the start and the end of its answer.
//!
//! B rows, S positions.

use traind_xla::{DType, Tensor};

use super::sample_weights::{sample_weights, sample_weights_input, weighted};
use super::token_labels::is_class;
use crate::error::Result;
use crate::model::{Batch, InputDim, InputSpec, InputValues, LossSum, PADDED_LENGTH};

/// The first and the last token of each answer.
pub const POSITIONS: [&str; 2] = ["start_positions", "end_positions"];

/// The weights of the start and of the end of each answer beside those of its row, f32[B, 2]: both losses are means
/// over those positions that lie in the batch of all cores. Without them, the two are one mean.
pub const ANSWER_WEIGHTS: &str = "answer_weights";

/// `start_positions`, `end_positions` and `padded_length` s32[B], `answer_weights` f32[B, 2] and `sample_weights`
/// f32[B].
/// Transformers takes the loss over all positions of a batch, padding among them: those from
/// `padded_length` on are not in its batch. Without it all are.
pub(crate) fn inputs() -> Vec<InputSpec> {
    let of_row = |name| {
        let input = InputSpec::target(name, DType::S32, &[InputDim::Rows]);
        input.of_values(InputValues::NotNegative)
    };
    let mut inputs = POSITIONS.map(of_row).to_vec();
    inputs.push(of_row(PADDED_LENGTH));
    let weights =
        InputSpec::target(ANSWER_WEIGHTS, DType::F32, &[InputDim::Rows, InputDim::Size(2)]);
    inputs.push(weights.of_values(InputValues::NotNegative));
    inputs.push(sample_weights_input());
    inputs
}

/// The loss of `logits` f32[B, S, 2], where the batch holds the positions: the
/// mean of the start's and the end's. Positions below zero count as zero, and
/// those behind the batch, as far as it is padded in transformers, do not count.
pub(crate) fn loss(logits: &Tensor, batch: &Batch) -> Result<Option<LossSum>> {
    let [Some(start), Some(end)] = POSITIONS.map(|name| batch.optional(name)) else {
        return Ok(None);
    };
    let weights = sample_weights(batch)?.mul_scalar(0.5)?;
    let logits = within_padded_length(logits, batch)?;
    let start = position_loss(&logits, 0, start, &weights, batch)?;
    let end = position_loss(&logits, 1, end, &weights, batch)?;
    Ok(Some(LossSum {
        loss_sum: start.loss_sum.add(&end.loss_sum)?,
        weight_sum: start.weight_sum.add(&end.weight_sum)?,
    }))
}

/// The logits f32[B, S, 2] with scores that count as nothing behind the padded length.
fn within_padded_length(logits: &Tensor, batch: &Batch) -> Result<Tensor> {
    let Some(length) = batch.optional(PADDED_LENGTH) else { return Ok(logits.clone()) };
    let trace = logits.trace();
    let position = trace.iota(DType::S32, logits.dims(), 1)?;
    let length = length.unsqueeze(1)?.unsqueeze(1)?.broadcast_to(logits.dims())?;
    let outside = trace.scalar(f64::from(f32::MIN), DType::F32)?;
    Ok(position.lt(&length)?.select(logits, &outside)?)
}

fn position_loss(
    logits: &Tensor,
    score: usize,
    positions: &Tensor,
    weights: &Tensor,
    batch: &Batch,
) -> Result<LossSum> {
    let scores = logits.slice(2, score, score + 1)?.squeeze(2)?;
    let positions = positions.maximum_scalar(0.0)?;
    let mut counted = is_class(&positions, scores.dims()[1])?;
    if let Some(length) = batch.optional(PADDED_LENGTH) {
        counted = counted.and(&positions.lt(length)?)?;
    }
    let mut weights = counted.convert(DType::F32)?.mul(weights)?;
    if let Some(of_answers) = batch.optional(ANSWER_WEIGHTS) {
        weights = weights.mul(&of_answers.slice(1, score, score + 1)?.squeeze(1)?)?;
    }
    weighted(&scores.cross_entropy(&positions)?, &weights)
}
