//! `torch.nn.functional.mse_loss`: the mean of squared differences over the numbers of a row.

use std::sync::Arc;

use traind_xla::Tensor;

use super::{Compared, Formula, LossSettings};
use crate::error::Result;

struct Mse;

pub(super) fn build(_settings: &LossSettings) -> Result<Arc<dyn Formula>> {
    Ok(Arc::new(Mse))
}

impl Formula for Mse {
    fn values(&self, at: &Compared<'_>) -> Result<Tensor> {
        let difference = at.difference()?;
        Ok(difference.mul(&difference)?.mean(&[1])?)
    }
}
