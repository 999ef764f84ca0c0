//! Accuracy, counted on the device: logits over a vocabulary are too many to be
//! read back.

use traind_xla::{DType, Tensor};

use super::token_labels::TokenLabels;
use crate::error::Result;
use crate::model::{Batch, OutputKind};
use crate::tensor_parallel::Logits;

/// The sum of the weights of those labelled tokens (or rows) whose label has the
/// largest logit, f32[]. `None` where the batch holds no classes as `labels`.
pub fn correct_sum(kind: OutputKind, logits: &Logits, batch: &Batch) -> Result<Option<Tensor>> {
    let Some(counted) = TokenLabels::of_output(kind, batch)? else { return Ok(None) };
    let correct = logits.flatten()?.best_classes()?.eq(&counted.labels)?.convert(DType::F32)?;
    Ok(Some(correct.mul(&counted.weights)?.sum(&[0])?))
}
