//! `torch.nn.functional.l1_loss`: the mean of absolute differences over the numbers of a row.

use std::sync::Arc;

use traind_xla::Tensor;

use super::{Compared, Formula, LossSettings};
use crate::error::Result;

struct L1;

pub(super) fn build(_settings: &LossSettings) -> Result<Arc<dyn Formula>> {
    Ok(Arc::new(L1))
}

impl Formula for L1 {
    fn values(&self, at: &Compared<'_>) -> Result<Tensor> {
        Ok(at.difference()?.abs()?.mean(&[1])?)
    }
}
