//! `torch.nn.Embedding` with the noise of NEFTune (Jain et al., 2023), and position embeddings that need no lookup.
//!
//! V rows of the table, B batch, S sequence, H hidden.

use traind_xla::{DType, Tensor};

use crate::error::{Error, Result};
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath, Role};

/// Up to this many rows a lookup is a product with one-hot rows: the gradient
/// of a gather is a scatter that adds row after row, which is slow when many
/// ids share few rows.
const ONE_HOT_ROWS_MAX: usize = 16;

/// A table of rows, one for each id: `torch.nn.Embedding`.
#[derive(Clone, Debug)]
pub struct Embedding {
    weight: String,
    padding_id: Option<usize>,
    /// The size of a vocabulary, which cores can divide.
    vocabulary: Option<usize>,
}

impl Embedding {
    /// A table of `rows` x `width`, drawn by `init` or normal with a deviation.
    pub fn new(
        path: ParameterPath<'_>,
        rows: impl Into<Dimension>,
        width: usize,
        init: impl Into<Init>,
    ) -> Embedding {
        Embedding::with_padding(path, rows, width, init, None)
    }

    /// An embedding whose row `padding_id` gets no gradient from lookups: PyTorch's `padding_idx`. A
    /// normal one starts as zeros there.
    pub fn with_padding(
        path: ParameterPath<'_>,
        rows: impl Into<Dimension>,
        width: usize,
        init: impl Into<Init>,
        padding_id: Option<usize>,
    ) -> Embedding {
        let init = match (padding_id, init.into()) {
            (Some(row), Init::Normal { std }) => Init::NormalWithZeroRow { std, row },
            (_, init) => init,
        };
        let rows = rows.into();
        let vocabulary = rows.is_divisible().then_some(rows.size);
        let mut path = if rows.is_divisible() { path } else { path.beside_tokens() };
        let weight = path.declare("weight", Role::Embedding, &[rows, width.into()], init);
        Embedding { weight, padding_id, vocabulary }
    }

    /// Ids s32[B, S] to rows [B, S, H] of this core's positions.
    pub fn forward(&self, cx: &Forward<'_>, ids: &Tensor) -> Result<Tensor> {
        let own = &cx.own_positions(ids, 1)?;
        let rows = self.look_up(cx, ids, own)?.convert(DType::F32)?;
        let (Some(padding_id), ids) = (self.padding_id, own) else { return Ok(rows) };
        let padding_id = cx.trace.scalar(padding_id as f64, ids.dtype())?;
        let is_padding = ids.eq(&padding_id)?.unsqueeze(ids.rank())?;
        Ok(is_padding.select(&rows.stop_gradient()?, &rows)?)
    }

    /// The rows of `own` ids, which are some of all `ids`.
    fn look_up(&self, cx: &Forward<'_>, ids: &Tensor, own: &Tensor) -> Result<Tensor> {
        let table = &cx.stored(&self.weight)?;
        let share = match self.vocabulary {
            Some(size) => cx.vocabulary_share(size, table.dims()[0])?,
            None => None,
        };
        match share {
            // Each core has other tokens of the vocabulary, at all positions.
            Some(share) => cx.fan_in(&share.look_up(table, ids)?),
            None => look_up(table, own),
        }
    }

    /// The first row for every place: what ids of zero would look up, `[H]`.
    pub fn first_row(&self, cx: &Forward<'_>) -> Result<Tensor> {
        Ok(cx.parameter(&self.weight)?.slice(0, 0, 1)?.squeeze(0)?)
    }
}

fn look_up(table: &Tensor, ids: &Tensor) -> Result<Tensor> {
    let rows = table.dims()[0];
    if rows > ONE_HOT_ROWS_MAX {
        return Ok(table.take(ids)?);
    }
    let count = ids.shape().element_count();
    let one_hot = ids.reshape(&[count])?.one_hot(rows, table.dtype())?;
    let dims = [ids.dims(), &table.dims()[1..]].concat();
    Ok(one_hot.matmul(table)?.reshape(&dims)?)
}

/// Embedded words [B, S, H] of this core's positions with noise up to the pass's magnitude divided by the root of H, or
/// `x` itself without noise. transformers adds it to the result of a model's input embeddings.
pub fn with_noise(cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
    let (Some(magnitude), Some(random)) = (cx.embedding_noise, cx.random_of_positions()?) else {
        return Ok(x.clone());
    };
    let width = x.dims().last().copied().unwrap_or(1) as f64;
    let share = random.uniform(x.dims())?.mul_scalar(2.0)?.sub_scalar(1.0)?;
    Ok(x.add(&share.mul(&magnitude.mul_scalar(width.sqrt().recip())?)?)?)
}

/// Refuses rows that are longer than the longest one of a model.
pub(crate) fn check_positions(positions: usize, max_positions: usize) -> Result<()> {
    match positions > max_positions {
        true => Err(Error::TooManyPositions { positions, max_positions }),
        false => Ok(()),
    }
}

/// Learned absolute positions, looked up for 0..S by a slice.
#[derive(Clone, Debug)]
pub(crate) struct PositionEmbedding {
    weight: String,
    max_positions: usize,
    /// The row of position 0.
    offset: usize,
}

impl PositionEmbedding {
    /// Declares a table of `max` rows of `width` numbers, drawn with the standard deviation `std`.
    pub(crate) fn new(path: ParameterPath<'_>, max: usize, width: usize, std: f64) -> Self {
        Self::with_init(path, max, width, Init::Normal { std })
    }

    /// Declares a table of `max` rows of `width` numbers with other initial values.
    pub(crate) fn with_init(path: ParameterPath<'_>, max: usize, width: usize, init: Init) -> Self {
        let mut path = path.beside_tokens();
        let weight = path.declare("weight", Role::Embedding, &[max.into(), width.into()], init);
        PositionEmbedding { weight, max_positions: max, offset: 0 }
    }

    /// A table of `offset` rows that no position has, and `max` rows behind them.
    pub(crate) fn with_offset(
        path: ParameterPath<'_>,
        max: usize,
        width: usize,
        std: f64,
        offset: usize,
    ) -> Self {
        let table = Self::new(path, max + offset, width, std);
        PositionEmbedding { max_positions: max, offset, ..table }
    }

    /// This core's of the rows of `position_ids` s32[B, S], all below S: [B, S, H], by a product with
    /// one-hot rows, since the gradient of a gather is a scatter that adds row after row.
    pub(crate) fn forward_at(&self, cx: &Forward<'_>, position_ids: &Tensor) -> Result<Tensor> {
        let positions = position_ids.dims().last().copied().unwrap_or_default();
        let (table, own) = (self.first_rows(cx, positions)?, cx.own_positions(position_ids, 1)?);
        let count = own.shape().element_count();
        let places = own.reshape(&[count])?.one_hot(positions, table.dtype())?;
        let dims = [own.dims(), &table.dims()[1..]].concat();
        Ok(places.matmul(&table)?.reshape(&dims)?)
    }

    /// This core's of the first `positions` rows, [S, H], or in a pass of one token a row those of the tokens'
    /// positions, [R, 1, H].
    pub(crate) fn forward(&self, cx: &Forward<'_>, positions: usize) -> Result<Tensor> {
        if let Some(positions) = cx.cached_positions() {
            let places = positions.add_scalar(self.offset as f64)?.unsqueeze(1)?;
            return Ok(cx.stored(&self.weight)?.take(&places)?.convert(DType::F32)?);
        }
        cx.own_positions(&self.first_rows(cx, positions)?, 0)
    }

    fn first_rows(&self, cx: &Forward<'_>, positions: usize) -> Result<Tensor> {
        check_positions(positions, self.max_positions)?;
        Ok(cx.parameter(&self.weight)?.slice(0, self.offset, self.offset + positions)?)
    }
}
