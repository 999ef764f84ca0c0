//! `torch.nn.functional.smooth_l1_loss`: differences are squared up to `beta`, and beyond it they count by their size.

use std::sync::Arc;

use traind_xla::Tensor;

use super::{Compared, Formula, Loss, LossSettings};
use crate::error::Result;

struct SmoothL1 {
    beta: f64,
}

pub(super) fn build(settings: &LossSettings) -> Result<Arc<dyn Formula>> {
    Ok(Arc::new(SmoothL1 { beta: settings.arg(Loss::SmoothL1, "beta")? }))
}

impl Formula for SmoothL1 {
    fn values(&self, at: &Compared<'_>) -> Result<Tensor> {
        let difference = at.difference()?;
        let size = difference.abs()?;
        let squared = difference.mul(&difference)?.mul_scalar(0.5 / self.beta)?;
        let linear = size.add_scalar(-0.5 * self.beta)?;
        Ok(size.lt_scalar(self.beta)?.select(&squared, &linear)?.mean(&[1])?)
    }
}
