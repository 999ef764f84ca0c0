//! Values of pairs, and functions of them.
//!
//! P pairs, whose sequences are 2P rows.

use traind_xla::Tensor;

use crate::error::Result;
use crate::tasks::softplus::softplus;

/// Values of rows, f32[2P], by their pairs: f32[P, 2].
pub(super) fn by_pair(values: &Tensor) -> Result<Tensor> {
    Ok(values.reshape(&[values.shape().element_count() / 2, 2])?)
}

/// A column of values [P, 2]: [P].
pub(super) fn column(values: &Tensor, index: usize) -> Result<Tensor> {
    Ok(values.slice(1, index, index + 1)?.squeeze(1)?)
}

/// The first column of values [P, 2] less the second: [P].
pub(super) fn margins(values: &Tensor) -> Result<Tensor> {
    Ok(column(values, 0)?.sub(&column(values, 1)?)?)
}

pub(super) fn square(x: &Tensor) -> Result<Tensor> {
    Ok(x.mul(x)?)
}

/// The sigmoid loss of scores where labels are flipped with the probability `flipped`.
pub(super) fn smoothed_sigmoid_loss(scores: &Tensor, flipped: f64) -> Result<Tensor> {
    let right = softplus(&scores.neg()?)?;
    if flipped == 0.0 {
        return Ok(right);
    }
    Ok(right.mul_scalar(1.0 - flipped)?.add(&softplus(scores)?.mul_scalar(flipped)?)?)
}

/// `log(1 - exp(x))` for x below 0, accurate near 0 too. Finite for any x: log-probabilities of 0 are rounded down to
/// the nearest that float32 distinguishes from it.
pub(super) fn log_1m_exp(x: &Tensor) -> Result<Tensor> {
    const LARGEST: f64 = -1e-7;
    // 1 - exp(x) = -2 t / (1 - t), where t = tanh(x / 2).
    let t = x.minimum_scalar(LARGEST)?.mul_scalar(0.5)?.tanh()?;
    Ok(t.mul_scalar(-2.0)?.log()?.sub(&t.neg()?.log1p()?)?)
}
