//! `torch.nn.functional.smooth_l1_loss`: differences are squared up to `beta`, and beyond it they count by their size.

use std::sync::Arc;

use traind_xla::Tensor;

use super::{Compared, Loss, LossSettings};
use crate::error::{Result, check_setting};

struct SmoothL1 {
    beta: f64,
}

pub(super) fn build(settings: &LossSettings) -> Result<Arc<dyn Loss>> {
    let beta = settings.arg("beta", 1.0);
    let fits = |beta: f64| beta.is_finite() && beta > 0.0;
    check_setting("beta", "a finite number above 0", beta, fits)?;
    Ok(Arc::new(SmoothL1 { beta }))
}

impl Loss for SmoothL1 {
    fn values(&self, at: &Compared<'_>) -> Result<Tensor> {
        let difference = at.difference()?;
        let size = difference.abs()?;
        let squared = difference.mul(&difference)?.mul_scalar(0.5 / self.beta)?;
        let linear = size.add_scalar(-0.5 * self.beta)?;
        Ok(size.lt_scalar(self.beta)?.select(&squared, &linear)?.mean(&[1])?)
    }
}
