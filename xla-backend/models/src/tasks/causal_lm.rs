//! Causal language modeling: each token predicts the label of the next one.

use traind_xla::Tensor;

use super::sample_weights::weighted;
use super::token_labels::{TokenLabels, next};
use crate::error::Result;
use crate::model::{Batch, LossSum, OutputKind};

/// The loss of `logits` f32[B S, V], where the batch holds `labels` s32[B, S];
/// those stand at their own tokens, and are shifted here.
pub(crate) fn loss(logits: &Tensor, batch: &Batch) -> Result<Option<LossSum>> {
    let Some(labels) = batch.optional("labels") else { return Ok(None) };
    let tokens = TokenLabels::new(&next(labels)?, logits.dims()[1], batch)?;
    weighted(&logits.cross_entropy(&tokens.labels)?, &tokens.weights).map(Some)
}

/// The divisor of a training step's loss in the Trainer (`num_items_in_batch`): it counts the
/// labels before they are shifted, so the first of each row too, which nothing predicts. `None`
/// for outputs whose labels are not shifted.
pub fn num_items_in_batch(kind: OutputKind, batch: &Batch) -> Result<Option<Tensor>> {
    let (OutputKind::NextToken { classes }, Some(labels)) = (kind, batch.optional("labels")) else {
        return Ok(None);
    };
    Ok(Some(TokenLabels::new(labels, classes, batch)?.weights.sum(&[0])?))
}
