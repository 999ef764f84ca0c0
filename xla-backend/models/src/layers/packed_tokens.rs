//! Layers over the tokens of a batch without its padding: the rows stand one behind the other, and only attention sees
//! them padded, each with its own keys.
//!
//! B rows, S positions of a padded row, Q slots of a packed one, H hidden.

use traind_xla::ops::Random;
use traind_xla::{DType, Tensor};

use crate::error::Result;
use crate::model::{Batch, Forward, PACKED_TOKENS, PADDED_TOKENS};

/// The places of a batch's tokens in padded rows and in packed ones.
#[derive(Clone, Debug)]
pub(crate) struct PackedTokens {
    /// The padded place of each packed token, s32[B Q].
    places: Tensor,
    /// The packed token of each padded place, s32[B S].
    tokens: Tensor,
    /// Draws the bits of padded rows; none where dropout is off.
    random_of_rows: Option<Random>,
    /// Draws the same bits for packed tokens.
    random_of_tokens: Option<Random>,
}

impl PackedTokens {
    /// The places in `batch`; `None` where its layers compute padding.
    pub(crate) fn of(cx: &Forward<'_>, batch: &Batch) -> Result<Option<PackedTokens>> {
        let [Some(places), Some(tokens)] =
            [PACKED_TOKENS, PADDED_TOKENS].map(|name| batch.optional(name))
        else {
            return Ok(None);
        };
        let flat = |x: &Tensor| x.reshape(&[x.shape().element_count()]);
        let padded = tokens.dims();
        let (places, tokens) = (flat(places)?, flat(tokens)?);
        let number = |axis| flat(&cx.trace.iota(DType::U32, padded, axis)?)?.take(&places);
        let random_of_tokens = match cx.random {
            Some(random) => Some(random.of_tokens(&number(0)?, &number(1)?)),
            None => None,
        };
        Ok(Some(PackedTokens {
            places,
            tokens,
            random_of_rows: cx.random.cloned(),
            random_of_tokens,
        }))
    }

    /// The context of layers over packed tokens.
    pub(crate) fn context<'a>(&'a self, cx: &Forward<'a>) -> Forward<'a> {
        Forward { random: self.random_of_tokens.as_ref(), ..*cx }
    }

    /// The context of attention, which sees padded rows.
    pub(super) fn context_of_rows<'a>(&'a self, cx: &Forward<'a>) -> Forward<'a> {
        Forward { random: self.random_of_rows.as_ref(), ..*cx }
    }

    /// [B S, H] to [B Q, H]; slots behind the last token are zeros.
    pub(crate) fn pack(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.place_rows(&self.places, &self.tokens)?)
    }

    /// [B Q, H] to [B S, H], with zeros as padding.
    pub(crate) fn pad(&self, x: &Tensor) -> Result<Tensor> {
        Ok(x.place_rows(&self.tokens, &self.places)?)
    }
}
