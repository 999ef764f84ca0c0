//! Layers over the tokens of a batch without its padding: the rows stand one behind the other, and only attention knows
//! which tokens are those of a row. Where no kernel reads them so, they are padded for it.
//!
//! B rows, S positions of a padded row, Q slots of a packed one, H hidden.

use traind_xla::ops::{PackedRows, Random};
use traind_xla::{DType, Tensor};

use super::RotaryTable;
use crate::error::Result;
use crate::model::{Batch, Forward, PACKED_TOKENS, PADDED_TOKENS, ReadTokens, numbers_at};

/// The places of a batch's tokens in padded rows and in packed ones.
#[derive(Clone, Debug)]
pub(crate) struct PackedTokens {
    /// The padded place of each packed token, s32[B Q].
    places: Tensor,
    /// The packed token of each padded place, s32[B S].
    tokens: Tensor,
    /// B and S.
    padded: [usize; 2],
    /// Draws the bits of padded rows; none where dropout is off.
    random_of_rows: Option<Random>,
    /// Draws the same bits for packed tokens.
    random_of_tokens: Option<Random>,
}

/// The result of `layers` over the states `x` [B S, H] of a batch's tokens. These are packed for them, [B Q, H], where
/// the batch leaves its padding out. Then the result is padded with zeros, unless it has the tokens alone that are
/// read.
pub(crate) fn without_padding(
    cx: &Forward<'_>,
    batch: &Batch,
    x: &Tensor,
    layers: impl FnOnce(&Forward<'_>, Option<&PackedTokens>, Tensor) -> Result<Tensor>,
) -> Result<Tensor> {
    let Some(packed) = PackedTokens::of(cx, batch)? else { return layers(cx, None, x.clone()) };
    let read = cx.parameters.read_tokens();
    let are_read = read.is_some();
    let read = read.filter(|read| !read.are_packed).map(|read| packed.read_tokens(read));
    let read = read.transpose()?;
    let parameters = cx.parameters.for_reading(read);
    let cx = Forward { parameters: &parameters, ..*cx };
    let x = layers(&packed.context(&cx), Some(&packed), packed.pack(x)?)?;
    if are_read { Ok(x) } else { packed.pad(&x) }
}

impl PackedTokens {
    /// The places in `batch`; `None` where its layers compute padding.
    fn of(cx: &Forward<'_>, batch: &Batch) -> Result<Option<PackedTokens>> {
        let [Some(places), Some(tokens)] =
            [PACKED_TOKENS, PADDED_TOKENS].map(|name| batch.optional(name))
        else {
            return Ok(None);
        };
        let flat = |x: &Tensor| x.reshape(&[x.shape().element_count()]);
        let padded = [0, 1].map(|axis| tokens.dims()[axis]);
        let (places, tokens) = (flat(places)?, flat(tokens)?);
        let random_of_rows = cx.random.cloned();
        let mut packed =
            PackedTokens { places, tokens, padded, random_of_rows, random_of_tokens: None };
        if let Some(random) = cx.random {
            let [rows, positions] = [0, 1].map(|axis| packed.number(DType::U32, axis));
            packed.random_of_tokens = Some(random.of_tokens(&rows?, &positions?));
        }
        Ok(Some(packed))
    }

    /// Tokens of padded rows as they stand among packed ones.
    fn read_tokens(&self, read: &ReadTokens) -> Result<ReadTokens> {
        let [tokens, read_tokens] = [&self.places, &read.places].map(|all| all.dims()[0] as f64);
        let places = numbers_at(&read.places, &self.tokens, tokens)?;
        Ok(read.among(places, numbers_at(&self.places, &read.numbers, read_tokens)?))
    }

    /// The row of each token, or its position there, [B Q]; any in slots behind the last token.
    fn number(&self, dtype: DType, axis: usize) -> Result<Tensor> {
        let [rows, positions] = self.padded;
        let numbers = self.places.trace().iota(dtype, &self.padded, axis)?;
        Ok(numbers.reshape(&[rows * positions])?.take(&self.places)?)
    }

    /// The position of each token in its row, s32[B Q]; any in slots behind the last token.
    fn positions(&self) -> Result<Tensor> {
        self.number(DType::S32, 1)
    }

    /// The rows of `table` for packed tokens, from those of all positions, or of all padded places.
    pub(super) fn table_of_tokens(&self, table: &RotaryTable) -> Result<RotaryTable> {
        match table.rows() == self.padded[1] {
            true => table.at(&self.positions()?),
            false => table.at(&self.places),
        }
    }

    /// The places for attention that reads packed tokens.
    pub(super) fn rows(&self) -> PackedRows<'_> {
        PackedRows { tokens: &self.tokens, places: &self.places }
    }

    /// The context of layers over packed tokens.
    fn context<'a>(&'a self, cx: &Forward<'a>) -> Forward<'a> {
        Forward { random: self.random_of_tokens.as_ref(), ..*cx }
    }

    /// The context of attention, which drops the shares of padded rows.
    pub(super) fn context_of_rows<'a>(&'a self, cx: &Forward<'a>) -> Forward<'a> {
        Forward { random: self.random_of_rows.as_ref(), ..*cx }
    }

    /// [B S, H] to [B Q, H]; slots behind the last token are zeros.
    pub(super) fn pack(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.place_rows(&self.places, &self.tokens)?)
    }

    /// [B Q, H] to [B S, H], with zeros as padding.
    pub(super) fn pad(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.place_rows(&self.tokens, &self.places)?)
    }
}
