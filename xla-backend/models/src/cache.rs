//! The keys and values of the tokens that a decoder has read, so that the next token takes a pass of
//! one position.
//!
//! R rows of tokens, B rows of sources (R is a multiple of B), S positions, T slots of a row, K heads
//! of keys and values, D head size.

use std::cell::RefCell;
use std::collections::VecDeque;

use traind_xla::{DType, Tensor};

use crate::error::{Error, Result};

/// The owner of the tokens whose keys and values are cached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CacheKind {
    /// The decoder's own tokens: `[R, T, K, D]`. Every pass adds to them.
    Tokens,
    /// The source of an encoder-decoder model: `[B, S, K, D]`. The first pass computes them.
    Source,
}

/// The keys and values of one attention layer.
#[derive(Clone, Debug)]
pub struct CacheEntry {
    /// The attention that reads it.
    pub kind: CacheKind,
    /// The keys, [B, heads, slots, D].
    pub key: Tensor,
    /// The values, of the keys' shape.
    pub value: Tensor,
}

/// The cache of a pass in a trace. Attention layers read and write their entries in the order of the
/// forward pass, so no layer has to know its number.
#[derive(Debug)]
pub struct KeyValueCache {
    slots: usize,
    next: Option<NextToken>,
    written: RefCell<Vec<CacheEntry>>,
}

/// A pass of one token a row, behind those that are cached.
#[derive(Debug)]
struct NextToken {
    /// The slot of each row's token, which is also its position: `s32[R]`.
    positions: Tensor,
    entries: RefCell<VecDeque<CacheEntry>>,
}

impl KeyValueCache {
    /// The cache of a pass that reads the first tokens of each row, up to `slots` of them.
    pub fn starting(slots: usize) -> KeyValueCache {
        KeyValueCache { slots, next: None, written: RefCell::default() }
    }

    /// The cache of a pass that reads one token of each row, at `positions`, `s32[R]`. `entries` are
    /// those that the pass before has written.
    pub fn continuing(
        slots: usize,
        positions: Tensor,
        entries: impl IntoIterator<Item = CacheEntry>,
    ) -> KeyValueCache {
        let entries = RefCell::new(entries.into_iter().collect());
        let next = Some(NextToken { positions, entries });
        KeyValueCache { slots, next, written: RefCell::default() }
    }

    /// The entries behind the pass, in the order of its layers.
    pub fn into_entries(self) -> Vec<CacheEntry> {
        self.written.into_inner()
    }

    /// The position of each row's token, `s32[R]`, in a pass of one token a row.
    pub(crate) fn positions(&self) -> Option<&Tensor> {
        self.next.as_ref().map(|next| &next.positions)
    }

    /// The slots of a row.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// The keys and values that the tokens of a pass attend to, from their own [R, S, K, D].
    pub(crate) fn add_tokens(&self, own: [Tensor; 2]) -> Result<[Tensor; 2]> {
        let Some(next) = &self.next else {
            let [key, value] = [&own[0], &own[1]].map(|own| self.padded(own));
            self.write(CacheKind::Tokens, [key?, value?]);
            return Ok(own);
        };
        let CacheEntry { key, value, .. } = next.entry(CacheKind::Tokens)?;
        let joined = [next.replaced(&key, &own[0])?, next.replaced(&value, &own[1])?];
        self.write(CacheKind::Tokens, joined.clone());
        Ok(joined)
    }

    /// The keys and values of the source, which `project` computes in the first pass.
    pub(crate) fn source(
        &self,
        project: impl FnOnce() -> Result<[Tensor; 2]>,
    ) -> Result<[Tensor; 2]> {
        let Some(next) = &self.next else {
            let projected = project()?;
            self.write(CacheKind::Source, projected.clone());
            return Ok(projected);
        };
        let CacheEntry { key, value, .. } = next.entry(CacheKind::Source)?;
        self.write(CacheKind::Source, [key.clone(), value.clone()]);
        Ok([key, value])
    }

    fn write(&self, kind: CacheKind, [key, value]: [Tensor; 2]) {
        self.written.borrow_mut().push(CacheEntry { kind, key, value });
    }

    /// [R, S, K, D] to [R, T, K, D], zero behind the tokens.
    fn padded(&self, own: &Tensor) -> Result<Tensor> {
        let positions = own.dims()[1];
        let missing = self.slots.checked_sub(positions);
        let error = || Error::TooManyPositions { positions, max_positions: self.slots };
        Ok(own.pad(1, 0, missing.ok_or_else(error)?, 0.0)?)
    }
}

impl NextToken {
    fn entry(&self, kind: CacheKind) -> Result<CacheEntry> {
        let entry = self.entries.borrow_mut().pop_front().filter(|entry| entry.kind == kind);
        entry.ok_or_else(|| Error::MissingInput { name: format!("cached keys of {kind:?}") })
    }

    /// `cached` [R, T, K, D] with `own` [R, 1, K, D] in the slot of each row's token. A selection by
    /// comparison, since Neuron writes no slices at places that differ from row to row.
    fn replaced(&self, cached: &Tensor, own: &Tensor) -> Result<Tensor> {
        let &[rows, slots, ..] = cached.dims() else { return Ok(cached.clone()) };
        let slot = cached.trace().iota(DType::S32, &[rows, slots], 1)?;
        let is_own = slot.eq(&self.positions.reshape(&[rows, 1])?)?;
        Ok(is_own.reshape(&[rows, slots, 1, 1])?.select(own, cached)?)
    }
}
