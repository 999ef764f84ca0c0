//! Gradient clipping by the global norm, as `torch.nn.utils.clip_grad_norm_`
//! does it. The bound is a tensor, so that changing it recompiles nothing.

use traind_xla::{DType, Tensor, Trace};

use crate::error::Result;

/// PyTorch adds it to the norm before dividing by it.
const EPSILON: f64 = 1e-6;

/// Gradients whose global norm has a bound.
#[derive(Clone, Debug)]
pub struct Clipped {
    /// The gradients, in the order in which they were given.
    pub gradients: Vec<Tensor>,
    /// The global norm before clipping, f32.
    pub norm: Tensor,
}

/// Scales `gradients` so that their global norm is at most `max_norm`, a
/// scalar; infinity leaves them as they are.
pub fn clip_by_global_norm(gradients: &[Tensor], max_norm: &Tensor) -> Result<Clipped> {
    let norm = square_sum(max_norm.trace(), gradients.iter())?.sqrt()?;
    let coefficient = coefficient(&norm, max_norm)?;
    Ok(Clipped { gradients: scale(gradients, &coefficient)?, norm })
}

/// The sum of the squares of all elements, f32. Where each core holds a shard of
/// the gradients, the cores add up these sums.
pub fn square_sum<'a>(
    trace: &Trace,
    gradients: impl Iterator<Item = &'a Tensor>,
) -> Result<Tensor> {
    let mut total = trace.scalar(0.0, DType::F32)?;
    for gradient in gradients {
        total = total.add(&gradient.convert(DType::F32)?.sum_of_squares()?)?;
    }
    Ok(total)
}

/// The factor of every gradient: `max_norm / norm`, at most one.
pub fn coefficient(norm: &Tensor, max_norm: &Tensor) -> Result<Tensor> {
    let one = norm.trace().scalar(1.0, norm.dtype())?;
    Ok(max_norm.div(&norm.add_scalar(EPSILON)?)?.minimum(&one)?)
}

/// Multiplies each gradient with a scalar.
pub fn scale(gradients: &[Tensor], coefficient: &Tensor) -> Result<Vec<Tensor>> {
    gradients.iter().map(|gradient| Ok(gradient.mul(coefficient)?)).collect()
}
