//! `torch.nn.functional.binary_cross_entropy_with_logits`: the mean over the classes of a row.

use std::sync::Arc;

use traind_xla::Tensor;

use super::{Compared, Loss, LossSettings};
use crate::error::Result;

struct BinaryCrossEntropy;

pub(super) fn build(_settings: &LossSettings) -> Result<Arc<dyn Loss>> {
    Ok(Arc::new(BinaryCrossEntropy))
}

impl Loss for BinaryCrossEntropy {
    fn values(&self, at: &Compared<'_>) -> Result<Tensor> {
        Ok(at.cross_entropy()?.mean(&[1])?)
    }
}

/// `max(x, 0) - x y + log(1 + exp(-|x|))` for logits and flags f32[N, C]: no overflow for any logit.
pub(in crate::tasks) fn of_flags(logits: &Tensor, flags: &Tensor) -> Result<Tensor> {
    let tail = logits.abs()?.neg()?.exp()?.log1p()?;
    Ok(logits.maximum_scalar(0.0)?.sub(&logits.mul(flags)?)?.add(&tail)?)
}
