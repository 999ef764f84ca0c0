//! Rotary positions (Su et al. 2021): the first R elements of a head are R / 2 pairs, element i and
//! element i + R / 2, and each pair is turned by an angle.
//!
//! T tokens, N heads, D head size, R the rotated part of a head, P positions.

use super::composite::Composite;
use super::{Backward, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::flag;
use crate::kernels::{KernelUse, Rotary as RotaryKernel};
use crate::tensor::Tensor;

/// x [T, N, D], cosines and sines [P, R / 2] give the turned heads [T, N, D]. Token t has the angles in
/// row t mod P.
#[derive(Clone, Copy, Debug)]
struct Rotary {
    /// Whether the angles are subtracted: the gradient.
    inverse: bool,
}

impl Tensor {
    /// Turns the heads of `self` `[T, N, D]` by angles with these cosines and sines `[P, R / 2]`, which
    /// count as constants. Token t has the angles in row t mod P.
    pub fn rotary(&self, cos: &Tensor, sin: &Tensor) -> Result<Tensor> {
        self.apply(Rotary { inverse: false }, &[cos, sin])
    }
}

impl Composite for Rotary {
    fn name(&self) -> &'static str {
        "rotary"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Fused
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x, cos, sin] = operands(inputs)?;
        let fits = match (&x.dims[..], &cos.dims[..]) {
            (&[tokens, _, size], &[positions, pairs]) => {
                pairs > 0 && 2 * pairs <= size && tokens.is_multiple_of(positions.max(1))
            }
            _ => false,
        };
        if !fits || cos != sin || cos.dtype != x.dtype || !x.dtype.is_float() {
            return Err(
                "takes heads [T, N, D], cosines and sines [P, R / 2], where P divides T and \
                        R is at most D"
                    .into(),
            );
        }
        Ok(x.clone())
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let (x, dims) = (&inputs[0], inputs[0].dims());
        let &[positions, pairs] = inputs[1].dims() else { return Ok(x.clone()) };
        let by_position = |x: &Tensor, width: usize| {
            x.reshape(&[dims[0] / positions.max(1), positions, dims[1], width])
        };
        let of_all_heads = |table: &Tensor| table.reshape(&[1, positions, 1, pairs]);
        let (cos, sin) = (of_all_heads(&inputs[1])?, of_all_heads(&inputs[2])?);
        let sin = if self.inverse { sin.neg()? } else { sin };
        let part = |from: usize| by_position(&x.slice(2, from, from + pairs)?, pairs);
        let (first, second) = (part(0)?, part(pairs)?);
        let turned =
            [first.mul(&cos)?.sub(&second.mul(&sin)?)?, second.mul(&cos)?.add(&first.mul(&sin)?)?];
        let mut parts = turned.to_vec();
        if 2 * pairs < dims[2] {
            parts.push(by_position(&x.slice(2, 2 * pairs, dims[2])?, dims[2] - 2 * pairs)?);
        }
        x.trace().concatenate(&parts.iter().collect::<Vec<_>>(), 3)?.reshape(dims)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let attributes = format!("inverse = {}", flag(self.inverse));
        let is_f32 = inputs[0].dtype == DType::F32;
        is_f32.then(|| KernelUse::of::<RotaryKernel>(attributes).in_place(vec![[0, 0]]))
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let angles = [&at.inputs[1], &at.inputs[2]];
        let turned_back = at.cotangent.apply(Rotary { inverse: !self.inverse }, &angles)?;
        Ok(vec![Some(turned_back), None, None])
    }
}
