//! Rotary position embeddings (Su et al., 2021) as transformers applies them:
//! the two halves of a head are the coordinates that are turned.
//!
//! B rows, S positions, N heads, D head size, R rotated part of a head.

use traind_xla::{DType, Tensor};

use crate::error::Result;
use crate::model::Forward;

/// Angles per position, and what the turned vectors are multiplied with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rotary {
    /// R / 2 angles in radians, one for each pair of coordinates.
    pub inverse_frequencies: Vec<f64>,
    /// Yarn's correction of the attention's temperature, else 1.
    pub attention_factor: f64,
}

/// Cosines and sines, f32[S, R / 2] each: of every position, of the position of each row's token, or
/// f32[B S, R / 2] of the positions of all tokens.
#[derive(Clone, Debug)]
pub(crate) struct RotaryTable {
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    /// The table for `position_ids` s32[B, S], without them for the positions 0..S, or in a pass of
    /// one token a row for those of the tokens.
    pub(crate) fn table(
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
        let scaled = |x: Tensor| x.mul_scalar(self.attention_factor);
        Ok(RotaryTable { cos: scaled(angles.cos()?)?, sin: scaled(angles.sin()?)? })
    }
}

impl RotaryTable {
    /// Turns the first R coordinates of each head of `x` [B, S, N, D], in float32.
    pub(crate) fn rotate(&self, x: &Tensor) -> Result<Tensor> {
        let &[rows, positions, heads, size] = x.dims() else { return Ok(x.clone()) };
        let by_token = x.convert(DType::F32)?.reshape(&[rows * positions, heads, size])?;
        Ok(by_token.rotary(&self.cos, &self.sin)?.reshape(x.dims())?)
    }
}
