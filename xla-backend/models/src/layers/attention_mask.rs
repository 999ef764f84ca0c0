//! Which keys the queries of attention see, as what is added to their scores and, where that is less,
//! as the first key of each query.
//!
//! B rows, S queries, T keys, N heads.

use traind_xla::ops::{PackedRows, VisibleKeys};
use traind_xla::{DType, Shape, Tensor};

use super::PackedTokens;
use crate::error::Result;
use crate::model::{Batch, Forward, PADDED_LENGTH};

/// The addend of a score that must not count. Not infinity: where nothing
/// counts, all are equal and softmax stays finite.
const HIDDEN: f64 = f32::MIN as f64;

/// Which keys the queries of a batch see.
#[derive(Clone, Debug)]
pub(crate) struct AttentionMask {
    /// f32[B, 1 or N, 1 or S, T].
    added: Tensor,
    visible: Option<Visible>,
    /// Present where queries and keys are packed.
    packed: Option<PackedTokens>,
    /// The values that replace hidden scores, which so have no gradient, f32[] or f32[B, 1, S, T]; None where the mask
    /// is added to scores. That differs for queries that see no key.
    replacement: Option<Tensor>,
    /// 1 for each query that sees a key, else 0, f32[B S, 1], where the context of the others is zero; None where they
    /// attend to all keys.
    seeing: Option<Tensor>,
}

/// The same mask for kernels, a causal one without its S × S elements.
#[derive(Clone, Debug)]
struct Visible {
    /// f32[B, 1, 1 or S, T].
    mask: Tensor,
    /// In causal attention, the first key that each query sees, s32[B, S].
    starts: Option<Tensor>,
}

impl AttentionMask {
    /// `added` f32[B, 1, 1 or S, T] is added to the scores of all heads.
    pub(crate) fn constant(added: Tensor) -> AttentionMask {
        let visible = Visible { mask: added.clone(), starts: None };
        AttentionMask::new(added, Some(visible))
    }

    /// The mask of padded rows that is added to scores.
    fn new(added: Tensor, visible: Option<Visible>) -> AttentionMask {
        AttentionMask { added, visible, packed: None, replacement: None, seeing: None }
    }

    /// The same mask for queries and keys that are packed, if they are.
    pub(crate) fn of_packed(self, packed: Option<&PackedTokens>) -> AttentionMask {
        AttentionMask { packed: packed.cloned(), ..self }
    }

    /// The places of queries and keys that are packed.
    pub(super) fn packed(&self) -> Option<&PackedTokens> {
        self.packed.as_ref()
    }

    /// The mask from one s32[B, S] of ones and, where padded, zeros, that hides padding from all queries and all keys
    /// from padding. That attends to all places of the batch equally: those before `padded_length` s32[B], or all.
    /// Hidden scores have no gradient.
    pub(crate) fn of_tokens(
        present: &Tensor,
        padded_length: Option<&Tensor>,
    ) -> Result<AttentionMask> {
        let (_, dims) = squares(present);
        let trace = present.trace();
        let is_token = present.ne_scalar(0.0)?.unsqueeze(1)?;
        let query = is_token.unsqueeze(3)?.broadcast_to(&dims)?;
        let key = is_token.unsqueeze(2)?.broadcast_to(&dims)?;
        let added = mask_of(&query.and(&key)?)?;
        let hidden = trace.scalar(HIDDEN, DType::F32)?;
        let replacement = match padded_length {
            // So far above the places behind the batch that these count as nothing.
            Some(length) => {
                let length = length.reshape(&[dims[0], 1, 1, 1])?.broadcast_to(&dims)?;
                let in_batch = trace.iota(DType::S32, &dims, 3)?.lt(&length)?;
                in_batch.select(&trace.scalar(HIDDEN / 2.0, DType::F32)?, &hidden)?
            }
            None => hidden,
        };
        let mask = AttentionMask::new(added, None);
        Ok(AttentionMask { replacement: Some(replacement), ..mask })
    }

    /// The same mask, where the loss of `batch` reads padding too: the context of queries that see no key is zero then,
    /// as that of torch's attention, and not the mean of all values.
    pub(crate) fn for_reading_padding(self, batch: &Batch) -> Result<AttentionMask> {
        match self.added.dims()[..] {
            [rows, _, queries, _] if queries > 1 && batch.optional(PADDED_LENGTH).is_some() => {
                let sees = self.added.max_keep(&[3])?.gt_scalar(HIDDEN / 2.0)?;
                let seeing = sees.convert(DType::F32)?.reshape(&[rows * queries, 1])?;
                Ok(AttentionMask { seeing: Some(seeing), ..self })
            }
            _ => Ok(self),
        }
    }

    /// The same mask with `scores` f32[B, N, S, T] that are learned.
    pub(crate) fn with_learned(self, scores: &Tensor) -> Result<AttentionMask> {
        Ok(AttentionMask { added: scores.add(&self.added)?, visible: None, ..self })
    }

    /// The scores of queries and keys, f32[B, N, S, T], where the mask shows them.
    pub(super) fn of_scores(&self, scores: &Tensor) -> Result<Tensor> {
        let sum = scores.add(&self.added)?;
        let Some(replacement) = &self.replacement else { return Ok(sum) };
        let replacement = match replacement.dims() {
            [] => replacement.clone(),
            _ => replacement.broadcast_to(sum.dims())?,
        };
        Ok(sum.lt_scalar(HIDDEN / 2.0)?.select(&replacement, &sum)?)
    }

    /// The context of queries [B S, H], as far as they see a key.
    pub(super) fn of_context(&self, context: Tensor) -> Result<Tensor> {
        match &self.seeing {
            Some(seeing) => Ok(context.mul(&seeing.convert(context.dtype())?)?),
            None => Ok(context),
        }
    }

    /// The number of rows of the batch.
    pub(crate) fn rows(&self) -> usize {
        self.added.dims()[0]
    }

    /// Keys of a row.
    pub(crate) fn keys(&self) -> usize {
        self.added.dims()[3]
    }

    /// None where attention as one operation cannot have the mask: learned scores have gradients.
    pub(super) fn visible_keys(&self) -> Option<VisibleKeys<'_>> {
        let Visible { mask, starts } = self.visible.as_ref()?;
        Some(VisibleKeys { mask, starts: starts.as_ref(), packed: None })
    }

    /// The keys that packed queries see; none where these have to be padded, because no kernel reads them.
    pub(super) fn visible_packed_keys(
        &self,
        cx: &Forward<'_>,
    ) -> Option<(&PackedTokens, VisibleKeys<'_>)> {
        let (packed, visible) = (self.packed.as_ref()?, self.visible_keys()?);
        let visible = VisibleKeys { packed: Some(packed.rows()), ..visible };
        PackedRows::has_kernel(cx.trace.kernels(), cx.compute_dtype()).then_some((packed, visible))
    }
}

/// The keys that a query sees by their distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Window {
    /// All keys of its row.
    All,
    /// The keys up to its own and, with a number, only so many of them.
    Causal(Option<usize>),
    /// The keys from so many positions before its own to as many behind it.
    Symmetric(usize),
}

impl Window {
    /// The mask from one s32[B, T] of ones and, where padded, zeros: padding is hidden from all queries.
    pub(crate) fn mask(self, cx: &Forward<'_>, present: &Tensor) -> Result<AttentionMask> {
        match self {
            Window::All => Ok(AttentionMask::constant(hidden_padding(present)?)),
            Window::Causal(window) => causal_mask(cx, present, window),
            Window::Symmetric(reach) => symmetric_mask(present, reach),
        }
    }
}

/// f32[B, 1, 1, T].
fn hidden_padding(mask: &Tensor) -> Result<Tensor> {
    let hidden = mask.convert(DType::F32)?.sub_scalar(1.0)?;
    Ok(hidden.mul_scalar(-HIDDEN)?.unsqueeze(1)?.unsqueeze(1)?)
}

/// f32[B, 1, S, S], which kernels take whole.
fn symmetric_mask(present: &Tensor, reach: usize) -> Result<AttentionMask> {
    let (square, dims) = squares(present);
    let trace = present.trace();
    let (query, key) = (trace.iota(DType::S32, &square, 0)?, trace.iota(DType::S32, &square, 1)?);
    let near = query.sub(&key)?.abs()?.lt_scalar(reach as f64 + 1.0)?;
    let present = present.ne_scalar(0.0)?.unsqueeze(1)?.unsqueeze(1)?.broadcast_to(&dims)?;
    Ok(AttentionMask::constant(mask_of(&near.broadcast_to(&dims)?.and(&present)?)?))
}

/// [S, S] and [B, 1, S, S] of a mask [B, S].
fn squares(mask: &Tensor) -> ([usize; 2], [usize; 4]) {
    let [rows, positions] = [0, 1].map(|axis| mask.dims().get(axis).copied().unwrap_or(1));
    ([positions; 2], [rows, 1, positions, positions])
}

/// The mask of causal attention. In a pass of one token a row, the keys are the slots of the cache up to
/// that token's.
fn causal_mask(cx: &Forward<'_>, mask: &Tensor, window: Option<usize>) -> Result<AttentionMask> {
    let (square, dims) = squares(mask);
    let [rows, _, _, positions] = dims;
    if let (Some(query), Some(cache)) = (cx.cached_positions(), cx.cache) {
        let dims = [rows, 1, 1, cache.slots()];
        let key = cx.trace.iota(DType::S32, &dims, 3)?;
        let query = query.reshape(&[rows, 1, 1, 1])?.broadcast_to(&dims)?;
        return Ok(AttentionMask::constant(mask_of(&is_near(&query, &key, window)?)?));
    }
    let trace = mask.trace();
    let (query, key) = (trace.iota(DType::S32, &square, 0)?, trace.iota(DType::S32, &square, 1)?);
    let present = mask.ne_scalar(0.0)?.reshape(&[rows, 1, 1, positions])?;
    let near = is_near(&query, &key, window)?;
    let added = mask_of(&near.broadcast_to(&dims)?.and(&present.broadcast_to(&dims)?)?)?;
    let starts = match window {
        None => trace.full(0.0, Shape::new(DType::S32, [rows, positions]))?,
        Some(window) => {
            trace.iota(DType::S32, &[rows, positions], 1)?.sub_scalar(window as f64 - 1.0)?
        }
    };
    let visible = Visible { mask: hidden_padding(mask)?, starts: Some(starts) };
    Ok(AttentionMask::new(added, Some(visible)))
}

/// The causal mask of rows that hold several texts, where no token sees those of another:
/// `position_ids` s32[B, S] begin at 0 with each text.
pub(crate) fn within_texts(
    mask: AttentionMask,
    position_ids: Option<&Tensor>,
) -> Result<AttentionMask> {
    let Some(position_ids) = position_ids else { return Ok(mask) };
    let &[rows, positions] = position_ids.dims() else { return Ok(mask) };
    let trace = mask.added.trace();
    // The place where a token's text begins.
    let start = trace.iota(DType::S32, &[rows, positions], 1)?.sub(position_ids)?;
    let dims = [rows, 1, positions, positions];
    let query = start.reshape(&[rows, 1, positions, 1])?.broadcast_to(&dims)?;
    let key = start.reshape(&[rows, 1, 1, positions])?.broadcast_to(&dims)?;
    let added = query.eq(&key)?.select(&mask.added, &trace.scalar(HIDDEN, DType::F32)?)?;
    let within = |visible: Visible| -> Result<Visible> {
        let starts = visible.starts.map(|starts| starts.maximum(&start)).transpose()?;
        Ok(Visible { starts, ..visible })
    };
    Ok(AttentionMask { added, visible: mask.visible.map(within).transpose()?, ..mask })
}

/// Whether a query sees a key, by their positions.
fn is_near(query: &Tensor, key: &Tensor, window: Option<usize>) -> Result<Tensor> {
    let near = key.le(query)?;
    match window {
        Some(window) => Ok(near.and(&query.sub(key)?.lt_scalar(window as f64)?)?),
        None => Ok(near),
    }
}

/// Turns visible keys into a number that is added to scores.
fn mask_of(visible: &Tensor) -> Result<Tensor> {
    let trace = visible.trace();
    Ok(visible.select(&trace.scalar(0.0, DType::F32)?, &trace.scalar(HIDDEN, DType::F32)?)?)
}
