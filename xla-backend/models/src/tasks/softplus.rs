//! The softplus function.

use traind_xla::Tensor;

use crate::error::Result;

/// `log(1 + exp(x))`, which is `-log σ(-x)`, without overflow for any x. The slope at 0 is one half.
pub(super) fn softplus(x: &Tensor) -> Result<Tensor> {
    let tail = x.abs()?.neg()?.exp()?.log1p()?;
    // Each of two equal numbers has half of a maximum's gradient.
    Ok(x.maximum_scalar(0.0)?.add(&tail)?)
}
