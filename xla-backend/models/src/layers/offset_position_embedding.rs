//! RoBERTa's positions: those of tokens count up from behind the padding id,
//! and padding itself has the padding id as its position.
//!
//! B rows, S positions, H hidden, W rows of the table that S positions reach.

use traind_xla::{DType, Tensor};

use crate::error::{Error, Result};
use crate::model::Forward;
use crate::parameters::{Init, ParameterPath, Role};

/// Learned positions that count behind the padding token's id, as RoBERTa's.
#[derive(Clone, Debug)]
pub(crate) struct OffsetPositionEmbedding {
    weight: String,
    rows: usize,
    padding_id: usize,
}

impl OffsetPositionEmbedding {
    /// A table of `[rows, width]`; the row of padding starts as zeros and gets
    /// no gradient.
    pub(crate) fn new(
        path: ParameterPath<'_>,
        [rows, width]: [usize; 2],
        std: f64,
        padding_id: usize,
    ) -> OffsetPositionEmbedding {
        let init = Init::NormalWithZeroRow { std, row: padding_id };
        let mut path = path.beside_tokens();
        let weight = path.declare("weight", Role::Embedding, &[rows.into(), width.into()], init);
        OffsetPositionEmbedding { weight, rows, padding_id }
    }

    /// Ids s32[B, S] to [B, S, H] of this core's positions: a product with one-hot rows, since the
    /// gradient of a gather is a scatter that adds row after row.
    pub(crate) fn forward(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        let &[rows, positions] = ids.dims() else { return Ok(ids.clone()) };
        let own = cx.own_positions(&self.positions(ids)?, 1)?;
        let reached = positions + self.padding_id + 1;
        if reached > self.rows {
            let max_positions = self.rows.saturating_sub(self.padding_id + 1);
            return Err(Error::TooManyPositions { positions, max_positions });
        }
        let table = cx.parameter(&self.weight)?.slice(0, 0, reached)?;
        let positions = own.dims()[1];
        let places = own.reshape(&[rows * positions])?;
        let found = places.one_hot(reached, table.dtype())?.matmul(&table)?;
        let is_padding = places.eq_scalar(self.padding_id as f64)?.unsqueeze(1)?;
        let found = is_padding.select(&found.stop_gradient()?, &found)?;
        Ok(found.reshape(&[rows, positions, table.dims()[1]])?)
    }

    /// Each token's number among the tokens of its row, from 1, and 0 for
    /// padding, all behind the padding id: s32[B, S].
    fn positions(&self, ids: &Tensor) -> Result<Tensor> {
        let positions = ids.dims()[1];
        let is_token = ids.ne_scalar(self.padding_id as f64)?.convert(DType::F32)?;
        let square = [positions, positions];
        let trace = ids.trace();
        let (from, to) = (trace.iota(DType::S32, &square, 0)?, trace.iota(DType::S32, &square, 1)?);
        let so_far = is_token.matmul(&from.le(&to)?.convert(DType::F32)?)?;
        let numbers = so_far.mul(&is_token)?.add_scalar(self.padding_id as f64)?;
        Ok(numbers.convert(DType::S32)?)
    }
}
