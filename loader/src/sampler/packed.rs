//! Batches whose layers compute no padding: the rows of a core stand one behind the other, and share their tokens.

use std::sync::Arc;

use super::{Sampler, SamplerError};
use crate::batch::{BatchSizes, equal_part_rows};
use crate::error::Result;
use crate::length_ladder::{LengthBudget, LengthLadder};

/// The batches, of several epochs if one has fewer, to which numbers of tokens are fitted.
const BATCHES: usize = 512;
/// The most epochs of those batches.
const EPOCHS_MAX: u64 = 64;

/// The sizes of a batch, and how much of it is no padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizedBatch {
    /// The sizes of its arrays.
    pub sizes: BatchSizes,
    /// The tokens of the part of a core with the most, divided by its rows: by those of its arrays, as all sizes.
    pub tokens_per_row: u32,
    /// The pairs of tokens that share a row, in the part of a core with the most, divided by its rows. Sequences of a
    /// row of the data count as if they were equally long.
    pub pairs_per_row: u64,
}

/// The tokens of rows that have several sequences, each of which takes a row of a batch's arrays.
#[derive(Clone, Debug)]
pub(super) struct RowSequences {
    /// The tokens of all sequences of each row.
    tokens: Arc<[u32]>,
    /// The sequences of a row.
    count: u64,
}

impl Sampler {
    /// The same sampler for rows of `count` sequences, which have so many `tokens` together. It was made of the lengths
    /// of the longest ones. Fails where a row has no number of tokens.
    pub fn with_sequences(
        mut self,
        tokens: Arc<[u32]>,
        count: usize,
    ) -> Result<Self, SamplerError> {
        let (found, rows) = (tokens.len(), self.rows());
        if found != rows {
            return Err(SamplerError::TooFewValues { found, rows });
        }
        self.sequences = Some(RowSequences { tokens, count: count.max(1) as u64 });
        Ok(self)
    }

    /// The same sampler for batches whose layers take at most so many rows of a core at a time, in [equal
    /// parts](crate::equal_part_rows).
    pub fn in_parts(self, rows_max: usize) -> Self {
        let part_rows = Some(equal_part_rows(self.config.batch_per_core, rows_max));
        Self { part_rows, ..self }
    }

    /// The same rows in the same batches, of which layers compute the tokens alone. The numbers of tokens are fitted to
    /// batches of any run on these rows within `budget`; a batch with more than any of those takes the next length of
    /// the present ladder. All rows are padded to one length outside the layers.
    pub fn packed(&self, budget: LengthBudget) -> Result<Self> {
        let epochs = BATCHES.div_ceil(self.batches_per_epoch().max(1)) as u64;
        let any_seed = self.with_any_seed();
        let orders: Vec<Vec<u32>> =
            (0..epochs.min(EPOCHS_MAX)).map(|epoch| any_seed.order(epoch)).collect();
        let batches: Vec<&[u32]> = orders.iter().flat_map(|order| self.cut(order)).collect();
        self.packed_to(&batches, budget, self.fitted(LengthBudget::of(1))?)
    }

    /// Packs as [`Self::packed`], by the lengths of [`Self::sampled_rows`] alone.
    pub fn packed_to_sample(&self, budget: LengthBudget) -> Result<Self> {
        let sample = self.sample();
        let batches: Vec<&[u32]> = sample.iter().map(Vec::as_slice).collect();
        self.packed_to(&batches, budget, self.fitted_to_sample(LengthBudget::of(1))?)
    }

    /// Whether layers compute no padding.
    pub fn is_packed(&self) -> bool {
        self.packed.is_some()
    }

    /// All batches in an epoch of any run on these rows.
    pub fn batches_of_epoch(&self) -> Vec<SizedBatch> {
        let order = self.any_order();
        self.cut(&order).into_iter().map(|rows| self.sized(rows)).collect()
    }

    /// All batches of [`Self::sampled_rows`].
    pub fn batches_of_sample(&self) -> Vec<SizedBatch> {
        self.sample().iter().map(|rows| self.sized(rows)).collect()
    }

    fn sized(&self, rows: &[u32]) -> SizedBatch {
        let tokens_per_row = self.share_of_row(rows);
        let sequences = self.sequences_per_row();
        let pairs_per_row = self.most_of_part(rows, |tokens| tokens * tokens / sequences);
        SizedBatch {
            sizes: self.sizes_of_share(rows, tokens_per_row),
            tokens_per_row,
            pairs_per_row,
        }
    }

    /// The sampler `one_length` with numbers of tokens that are fitted to `batches`, a part of those that `budget` is
    /// for.
    fn packed_to(
        &self,
        batches: &[&[u32]],
        budget: LengthBudget,
        one_length: Self,
    ) -> Result<Self> {
        let shares: Vec<u32> = batches.iter().map(|rows| self.share_of_row(rows)).collect();
        let budget = budget.for_part(batches.len(), self.batches_per_epoch());
        let ladder = LengthLadder::fitted(&shares, 1, budget)?.continued(&self.axes[0].ladder)?;
        Ok(Self { packed: Some(ladder), ..one_length })
    }

    /// The size of the packed positions in a batch of which a row's share is so many tokens; 0 where layers compute
    /// padding.
    pub(super) fn packed_positions(&self, share_of_row: u32) -> u32 {
        // A share is at most the longest row, which has a rung.
        self.packed.as_ref().map_or(0, |ladder| ladder.rung(share_of_row).unwrap_or(share_of_row))
    }

    /// The tokens of the part of a core with the most, divided by its rows, and at least 1.
    pub(super) fn share_of_row(&self, rows: &[u32]) -> u32 {
        self.most_of_part(rows, |tokens| tokens).max(1) as u32
    }

    /// The sum over the rows of the part of a core with the most by a function of their tokens, divided by its arrays'
    /// rows. Parts divide the rows of a core.
    fn most_of_part(&self, rows: &[u32], of_tokens: impl Fn(u64) -> u64) -> u64 {
        let part_rows = self.part_rows.unwrap_or(self.config.batch_per_core);
        let tokens = self.tokens();
        let sum = |rows: &[u32]| -> u64 {
            rows.iter().map(|&row| of_tokens(u64::from(tokens[row as usize]))).sum()
        };
        let most = rows.chunks(part_rows).map(sum).max().unwrap_or(0);
        most.div_ceil(part_rows as u64 * self.sequences_per_row())
    }

    /// The tokens of each row: of all its sequences, where it has several.
    pub(super) fn tokens(&self) -> &[u32] {
        self.sequences.as_ref().map_or(self.lengths(), |sequences| &sequences.tokens)
    }

    fn sequences_per_row(&self) -> u64 {
        self.sequences.as_ref().map_or(1, |sequences| sequences.count)
    }
}
