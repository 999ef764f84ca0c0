//! The positions of a batch's rows, of which each core has some between the layers that cores share
//! (Korthikanti et al., 2022).
//!
//! B rows, S positions, P positions of one core, H hidden. Where the cores do not divide S, positions
//! behind the last are added, and dropped where a layer begins.

use traind_xla::Tensor;
use traind_xla::ops::{Random, ReduceKind};

use super::TensorCores;
use crate::error::Result;

#[derive(Clone, Debug)]
pub(crate) struct PositionShare {
    cores: TensorCores,
    rows: usize,
    positions: usize,
    /// The first position of this core, a u32 scalar.
    first: Tensor,
}

/// The numbers of rows and of positions of tokens with `ids` [B, S].
pub(crate) fn token_dims(ids: &Tensor) -> [usize; 2] {
    match ids.dims() {
        &[rows, positions, ..] => [rows, positions],
        dims => [1, dims.iter().product()],
    }
}

impl PositionShare {
    /// The share of one core in the positions of tokens [B, S].
    pub(super) fn new(cores: &TensorCores, [rows, positions]: [usize; 2]) -> Result<PositionShare> {
        let own = positions.div_ceil(cores.count());
        let first = cores.index().mul_scalar(own as f64)?;
        Ok(PositionShare { cores: cores.clone(), rows, positions, first })
    }

    /// The positions of each core.
    fn own_count(&self) -> usize {
        self.positions.div_ceil(self.cores.count())
    }

    /// All positions [B S, H] of `x` [B P, H], from which each core computes another part.
    pub(super) fn gather(&self, x: &Tensor) -> Result<Tensor> {
        let whole = self.by_row(x)?.all_gather(1, self.cores.groups())?;
        self.without_added(&whole)
    }

    /// All positions [B S, H] of `x` [B P, H], with which all cores continue alike.
    pub(super) fn join(&self, x: &Tensor) -> Result<Tensor> {
        let whole = self.by_row(x)?.join(1, &self.first, self.cores.groups())?;
        self.without_added(&whole)
    }

    /// This core's positions of the sum of the parts [B S, H] or [B, S, H] that the cores computed:
    /// [B P, H] or [B, P, H].
    pub(super) fn scatter(&self, part: &Tensor) -> Result<Tensor> {
        let whole = self.with_added(&self.by_row(part)?, 1)?;
        let own = whole.reduce_scatter(ReduceKind::Sum, 1, self.cores.groups())?;
        let &[rows, positions, width] = own.dims() else { return Ok(own) };
        if part.rank() == own.rank() {
            Ok(own)
        } else {
            Ok(own.reshape(&[rows * positions, width])?)
        }
    }

    /// This core's positions of `x`, which has all of them along `axis`.
    pub(super) fn own(&self, x: &Tensor, axis: usize) -> Result<Tensor> {
        Ok(self.with_added(x, axis)?.dynamic_slice(axis, &self.first, self.own_count())?)
    }

    /// The random bits of tensors that hold this core's positions.
    pub(super) fn random_of_positions(&self, random: &Random) -> Random {
        random.from_place(0, &self.first)
    }

    /// [B S, H] to [B, S, H].
    fn by_row(&self, x: &Tensor) -> Result<Tensor> {
        let &[tokens, width] = x.dims() else { return Ok(x.clone()) };
        Ok(x.reshape(&[self.rows, tokens / self.rows, width])?)
    }

    fn with_added(&self, x: &Tensor, axis: usize) -> Result<Tensor> {
        let added = self.own_count() * self.cores.count() - self.positions;
        if added == 0 { Ok(x.clone()) } else { Ok(x.pad(axis, 0, added, 0.0)?) }
    }

    /// [B, S, H], with added positions, to [B S, H].
    fn without_added(&self, x: &Tensor) -> Result<Tensor> {
        let &[rows, positions, width] = x.dims() else { return Ok(x.clone()) };
        let x =
            if positions == self.positions { x.clone() } else { x.slice(1, 0, self.positions)? };
        Ok(x.reshape(&[rows * self.positions, width])?)
    }
}
