//! Rotary position embeddings (Su et al., 2021) as transformers applies them:
//! the two halves of a head are the coordinates that are turned.
//!
//! B rows, S positions, N heads, D head size, R rotated part of a head.

use traind_xla::{DType, Tensor};

use crate::error::Result;
use crate::model::Forward;

/// Angles per position, and what the turned vectors are multiplied with.
#[derive(Clone, Debug, PartialEq)]
pub struct Rotary {
    /// R / 2 angles in radians, one for each pair of coordinates.
    pub inverse_frequencies: Vec<f64>,
    /// Yarn's correction of the attention's temperature, else 1.
    pub attention_factor: f64,
}

/// Cosines and sines, f32[S, R] each: of every position, of the position of each row's token, or
/// f32[B S, R] of the positions of all tokens.
#[derive(Clone, Debug)]
pub struct RotaryTable {
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    /// The table for `position_ids` s32[B, S], without them for the positions 0..S, or in a pass of
    /// one token a row for those of the tokens.
    pub fn table(
        &self,
        cx: &Forward<'_>,
        positions: usize,
        position_ids: Option<&Tensor>,
    ) -> Result<RotaryTable> {
        let (trace, half) = (cx.trace, self.inverse_frequencies.len());
        let frequencies = trace.constant(DType::F32, &[1, half], &self.inverse_frequencies)?;
        let position = match (cx.cached_positions(), position_ids) {
            (Some(positions), _) => positions.convert(DType::F32)?.unsqueeze(1)?,
            (None, Some(ids)) => {
                ids.reshape(&[ids.shape().element_count(), 1])?.convert(DType::F32)?
            }
            (None, None) => trace.iota(DType::F32, &[positions, half], 0)?,
        };
        let angles = position.mul(&frequencies)?;
        let angles = trace.concatenate(&[&angles, &angles], 1)?;
        let scaled = |x: Tensor| x.mul_scalar(self.attention_factor);
        Ok(RotaryTable { cos: scaled(angles.cos()?)?, sin: scaled(angles.sin()?)? })
    }
}

impl RotaryTable {
    /// Turns the first R coordinates of each head of `x` [B, S, N, D], in float32.
    pub fn rotate(&self, x: &Tensor) -> Result<Tensor> {
        let &[_, positions, _, size] = x.dims() else { return Ok(x.clone()) };
        let &[places, rotated] = self.cos.dims() else { return Ok(x.clone()) };
        let by_position =
            |table: &Tensor| table.reshape(&[places / positions, positions, 1, rotated]);
        let (cos, sin) = (by_position(&self.cos)?, by_position(&self.sin)?);
        let wide = x.convert(DType::F32)?;
        let part = wide.slice(3, 0, rotated)?;
        let turned = part.mul(&cos)?.add(&quarter_turn(&part)?.mul(&sin)?)?;
        if rotated == size {
            return Ok(turned);
        }
        Ok(x.trace().concatenate(&[&turned, &wide.slice(3, rotated, size)?], 3)?)
    }
}

/// The halves (a, b) of the last axis to (-b, a).
fn quarter_turn(x: &Tensor) -> Result<Tensor> {
    let size = x.dims()[3];
    let (first, second) = (x.slice(3, 0, size / 2)?, x.slice(3, size / 2, size)?);
    Ok(x.trace().concatenate(&[&second.neg()?, &first], 3)?)
}
