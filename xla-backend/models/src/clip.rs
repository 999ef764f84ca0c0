//! Gradient clipping by the global norm, as `torch.nn.utils.clip_grad_norm_`
//! does it. The bound is a tensor, so that changing it recompiles nothing.

use traind_xla::{DType, Tensor, Trace};

use crate::error::Result;

/// PyTorch adds it to the norm before dividing by it.
const EPSILON: f64 = 1e-6;
/// The sum of the squares of all elements, f32, in one call for each group of gradients. Where each core holds a shard
/// of the gradients, the cores add up these sums.
pub fn square_sum<'a>(
    trace: &Trace,
    groups: impl Iterator<Item = Vec<&'a Tensor>>,
) -> Result<Tensor> {
    let mut total = trace.scalar(0.0, DType::F32)?;
    for gradients in groups {
        total = total.add_sums_of_squares(&gradients)?;
    }
    Ok(total)
}

/// The factor of every gradient: `max_norm / norm`, at most one.
pub fn coefficient(norm: &Tensor, max_norm: &Tensor) -> Result<Tensor> {
    let one = norm.trace().scalar(1.0, norm.dtype())?;
    Ok(max_norm.div(&norm.add_scalar(EPSILON)?)?.minimum(&one)?)
}
