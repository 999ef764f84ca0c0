//! Causal language modeling: each token predicts the label of the next one.

use traind_xla::Tensor;

use super::sample_weights::weighted;
use super::token_labels::TokenLabels;
use crate::error::Result;
use crate::model::{Batch, LossSum, Model, OutputKind};
use crate::tensor_parallel::Logits;

/// The loss of `logits` f32[N, V] of the tokens that are read, where the batch holds `labels` s32[B, S];
/// those stand at their own tokens, and are shifted here.
pub(crate) fn loss(logits: &Logits, batch: &Batch) -> Result<Option<LossSum>> {
    let Some(labels) = batch.optional("labels") else { return Ok(None) };
    let tokens = TokenLabels::of_next(labels, logits.classes(), batch)?;
    weighted(&logits.cross_entropy(&tokens.labels)?, &tokens.weights).map(Some)
}

/// The divisor of the loss of a training step (the Trainer's `num_items_in_batch`) where it is not
/// the number of predicted labels.
///
/// The Trainer learns from a class's name whether its labels are shifted. Where the name lacks
/// `ForCausalLM`, as `GPT2LMHeadModel` does, it also counts the first label of each row, which
/// nothing predicts.
pub fn num_items_in_batch(model: &Model, batch: &Batch) -> Result<Option<Tensor>> {
    let (OutputKind::NextToken { classes }, Some(labels)) =
        (model.output(), batch.optional("labels"))
    else {
        return Ok(None);
    };
    if model.config().architecture().is_some_and(|name| name.contains("ForCausalLM")) {
        return Ok(None);
    }
    Ok(Some(TokenLabels::new(labels, classes, batch)?.weights.sum(&[0])?))
}
