//! Values of one distribution beside those of the same rank in another (Melnyk et al., 2024).
//!
//! P pairs.

use traind_xla::{DType, Tensor};

use crate::error::Result;

/// The value of `others` f32[P] with the rank of each of `values` f32[P]. Pairs of weight 0 rank last.
pub(super) fn of_equal_rank(values: &Tensor, others: &Tensor, weights: &Tensor) -> Result<Tensor> {
    let count = values.dims()[0];
    let own = ranks(values, weights)?.unsqueeze(1)?.broadcast_to(&[count, count])?;
    let other = ranks(others, weights)?.unsqueeze(0)?.broadcast_to(&[count, count])?;
    let is_equal = own.eq(&other)?;
    let others = others.unsqueeze(0)?.broadcast_to(&[count, count])?;
    let none = values.trace().full(0.0, others.shape().clone())?;
    Ok(is_equal.select(&others, &none)?.sum(&[1])?)
}

/// The number of pairs before each in ascending order, of equals the first ones: f32[P].
fn ranks(values: &Tensor, weights: &Tensor) -> Result<Tensor> {
    let (count, trace) = (values.dims()[0], values.trace());
    let last = trace.full(f64::from(f32::MAX), values.shape().clone())?;
    let values = weights.gt_scalar(0.0)?.select(&values.stop_gradient()?, &last)?;
    let dims = [count, count];
    let own = values.unsqueeze(1)?.broadcast_to(&dims)?;
    let other = values.unsqueeze(0)?.broadcast_to(&dims)?;
    let is_earlier = trace.iota(DType::S32, &dims, 1)?.lt(&trace.iota(DType::S32, &dims, 0)?)?;
    let is_before = other.lt(&own)?.or(&other.eq(&own)?.and(&is_earlier)?)?;
    Ok(is_before.convert(DType::F32)?.sum(&[1])?)
}
