//! `torch.nn.functional.binary_cross_entropy_with_logits`: the mean over the classes of a row.

use std::sync::Arc;

use traind_xla::Tensor;

use super::{Compared, Formula, LossSettings};
use crate::error::Result;

struct BinaryCrossEntropy;

pub(super) fn build(_settings: &LossSettings) -> Result<Arc<dyn Formula>> {
    Ok(Arc::new(BinaryCrossEntropy))
}

impl Formula for BinaryCrossEntropy {
    fn values(&self, at: &Compared<'_>) -> Result<Tensor> {
        Ok(at.cross_entropy()?.mean(&[1])?)
    }
}
