//! Rotary position embeddings (Su et al., 2021) as transformers applies them:
//! the two halves of a head are the coordinates that are turned.
//!
//! B rows, S positions, N heads, D head size, R rotated part of a head.

use traind_xla::{DType, Tensor};

use crate::cache::KeyValueCache;
use crate::error::Result;
use crate::model::Forward;

/// Angles per position, and what the turned vectors are multiplied with.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rotary {
    /// R / 2 angles in radians, one for each pair of coordinates.
    pub inverse_frequencies: Vec<f64>,
    /// The correction of the attention's temperature by Yarn and LongRoPE, else 1.
    pub attention_factor: f64,
    /// The angles of longer rows, where they have others.
    pub long: Option<LongRotary>,
}

/// The angles of rows that are longer than those that a model was first trained on (LongRoPE).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LongRotary {
    /// The positions of the longest row that has the other angles.
    pub positions: usize,
    /// R / 2 angles in radians.
    pub inverse_frequencies: Vec<f64>,
}

/// Cosines and sines, f32[S, R / 2] each: of every position, of the position of each row's token, or
/// f32[T, R / 2] of the positions of all tokens.
#[derive(Clone, Debug)]
pub(crate) struct RotaryTable {
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    /// The table for `position_ids` s32[B, S], without them for the positions 0..S, or in a pass of
    /// one token a row for those of the tokens. `present` s32[B, S] is 1 for tokens, and 0 for padding.
    pub(crate) fn table(
        &self,
        cx: &Forward<'_>,
        present: &Tensor,
        position_ids: Option<&Tensor>,
    ) -> Result<RotaryTable> {
        let (trace, half) = (cx.trace, self.inverse_frequencies.len());
        let positions = present.dims()[1];
        let frequencies = self.frequencies(cx, present, position_ids)?;
        let position = match (cx.cached_positions(), position_ids) {
            (Some(positions), _) => positions.convert(DType::F32)?.unsqueeze(1)?,
            (None, Some(ids)) => {
                ids.reshape(&[ids.shape().element_count(), 1])?.convert(DType::F32)?
            }
            (None, None) if frequencies.dims()[0] > 1 => {
                let of_rows = trace.iota(DType::F32, present.dims(), 1)?;
                of_rows.reshape(&[frequencies.dims()[0], 1])?
            }
            (None, None) => trace.iota(DType::F32, &[positions, half], 0)?,
        };
        let angles = position.mul(&frequencies)?;
        let scaled = |x: Tensor| x.mul_scalar(self.attention_factor);
        Ok(RotaryTable { cos: scaled(angles.cos()?)?, sin: scaled(angles.sin()?)? })
    }

    /// The angles of a pass, f32[1, R / 2]. Rows are long by the longest of a core, whatever it is padded to, and those
    /// of several texts by their longest text. Where tokens are cached, each row has angles of its own, as if it was
    /// alone: f32[B S, R / 2], or f32[B, R / 2] in a pass of one token a row.
    fn frequencies(
        &self,
        cx: &Forward<'_>,
        present: &Tensor,
        position_ids: Option<&Tensor>,
    ) -> Result<Tensor> {
        let dims = [1, self.inverse_frequencies.len()];
        let constant = |values: &[f64]| cx.trace.constant(DType::F32, &dims, values);
        let plain = constant(&self.inverse_frequencies)?;
        let longest = match cx.cached_positions() {
            Some(_) => cx.cache.map_or(1, KeyValueCache::slots),
            None => present.dims()[1],
        };
        let is_long = |long: &&LongRotary| longest > long.positions;
        let Some(long) = self.long.as_ref().filter(is_long) else { return Ok(plain) };
        let long_frequencies = constant(&long.inverse_frequencies)?;
        if cx.cache.is_some() {
            return by_row(cx, present, long.positions, [&long_frequencies, &plain]);
        }
        let longest = match position_ids {
            Some(ids) => ids.max(&[0, 1])?.add_scalar(1.0)?,
            // Neuron adds up no integers.
            None => present.convert(DType::F32)?.sum(&[1])?.max(&[0])?,
        };
        let is_long = longest.gt_scalar(long.positions as f64)?.broadcast_to(&dims)?;
        Ok(is_long.select(&long_frequencies, &plain)?)
    }
}

/// The angles of each token, of `[long, plain]` f32[1, R / 2], by the tokens of its row up to now.
fn by_row(
    cx: &Forward<'_>,
    present: &Tensor,
    positions: usize,
    angles: [&Tensor; 2],
) -> Result<Tensor> {
    let (length, tokens) = match cx.cached_positions() {
        Some(place) => (place.add_scalar(1.0)?.convert(DType::F32)?, 1),
        None => (present.convert(DType::F32)?.sum(&[1])?, present.dims()[1]),
    };
    let (rows, half) = (length.dims()[0], angles[0].dims()[1]);
    let dims = [rows, tokens, half];
    let is_long = length.gt_scalar(positions as f64)?.reshape(&[rows, 1, 1])?;
    let [long, plain] = angles.map(|it| it.unsqueeze(0)?.broadcast_to(&dims));
    let chosen = is_long.broadcast_to(&dims)?.select(&long?, &plain?)?;
    Ok(chosen.reshape(&[rows * tokens, half])?)
}

impl RotaryTable {
    /// The number of positions that it has angles of.
    pub(super) fn rows(&self) -> usize {
        self.cos.dims()[0]
    }

    /// The rows at `places` s32[T].
    pub(super) fn at(&self, places: &Tensor) -> Result<RotaryTable> {
        Ok(RotaryTable { cos: self.cos.take(places)?, sin: self.sin.take(places)? })
    }

    /// Turns the first R coordinates of each head of `x` [B, S, N, D], in float32.
    pub(crate) fn rotate(&self, x: &Tensor) -> Result<Tensor> {
        let &[rows, positions, heads, size] = x.dims() else { return Ok(x.clone()) };
        let by_token = x.convert(DType::F32)?.reshape(&[rows * positions, heads, size])?;
        Ok(by_token.rotary(&self.cos, &self.sin)?.reshape(x.dims())?)
    }
}
