//! `torch.nn.Dropout`: zeroes with probability `rate` and scales the rest.

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;

/// `x` itself when not training or when the rate is zero.
pub fn dropout(cx: &Forward<'_>, x: &Tensor, rate: f64) -> Result<Tensor> {
    match cx.random {
        Some(random) if rate > 0.0 => Ok(x.dropout(rate, random)?),
        _ => Ok(x.clone()),
    }
}
