//! Causal language modeling: each token predicts the label of the next one.

use traind_xla::Tensor;

use super::sample_weights::weighted;
use super::token_labels::TokenLabels;
use crate::error::Result;
use crate::model::{Batch, LossSum, OutputKind};

/// A label that no class has.
const IGNORED: f64 = -100.0;

/// The loss of `logits` f32[B S, V], where the batch holds `labels` s32[B, S];
/// those stand at their own tokens, and are shifted here.
pub(crate) fn loss(logits: &Tensor, batch: &Batch) -> Result<Option<LossSum>> {
    let Some(labels) = batch.optional("labels") else { return Ok(None) };
    let tokens = TokenLabels::new(&next(labels)?, logits.dims()[1], batch)?;
    weighted(&logits.cross_entropy(&tokens.labels)?, &tokens.weights).map(Some)
}

/// What the Trainer divides the loss of a training step by (`num_items_in_batch`): it counts the
/// labels before they are shifted, so the first of each row too, which nothing predicts. `None`
/// for outputs whose labels are not shifted.
pub fn num_items_in_batch(kind: OutputKind, batch: &Batch) -> Result<Option<Tensor>> {
    let (OutputKind::NextToken { classes }, Some(labels)) = (kind, batch.optional("labels")) else {
        return Ok(None);
    };
    Ok(Some(TokenLabels::new(labels, classes, batch)?.weights.sum(&[0])?))
}

/// The label of the token behind each one, s32[B, S]; none behind the last.
pub(super) fn next(labels: &Tensor) -> Result<Tensor> {
    let positions = labels.dims()[1];
    Ok(labels.slice(1, 1, positions)?.pad(1, 0, 1, IGNORED)?)
}
