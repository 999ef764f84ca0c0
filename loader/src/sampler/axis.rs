//! A length that batches are padded to: the lengths of the rows and the ladder of padded ones.

use std::sync::Arc;

use super::SamplerError;
use crate::batch::BatchAxis;
use crate::error::Result;
use crate::length_ladder::{LengthBudget, LengthLadder};

/// The lengths of all rows along one axis.
#[derive(Clone, Debug)]
pub(super) struct PaddedAxis {
    pub(super) axis: BatchAxis,
    pub(super) lengths: Arc<[u32]>,
    pub(super) ladder: LengthLadder,
}

impl PaddedAxis {
    /// Fails on a row beyond the longest rung.
    pub(super) fn new(
        axis: BatchAxis,
        lengths: Arc<[u32]>,
        ladder: LengthLadder,
    ) -> Result<Self, SamplerError> {
        let longest = ladder.longest();
        match lengths.iter().position(|&length| length > longest) {
            Some(row) => Err(SamplerError::TooLong { row, length: lengths[row], longest }),
            None => Ok(Self { axis, lengths, ladder }),
        }
    }

    /// The length that a batch is padded to.
    pub(super) fn padded(&self, rows: &[u32]) -> u32 {
        let longest = self.longest(rows);
        // `new` made sure that every row has a rung.
        self.ladder.rung(longest).unwrap_or(longest)
    }

    /// The same lengths with the ladder within `budget` that pads `batches` least.
    pub(super) fn fitted(&self, batches: &[&[u32]], budget: LengthBudget) -> Result<Self> {
        let longest_rows: Vec<u32> = batches.iter().map(|rows| self.longest(rows)).collect();
        let longest = self.lengths.iter().copied().max().unwrap_or(0);
        let ladder = LengthLadder::fitted(&longest_rows, longest, budget)?;
        Ok(Self { ladder, ..self.clone() })
    }

    /// The same lengths with the ladder within `budget` that pads `batches` least, and above it the
    /// rungs of the present one: other batches may be longer.
    pub(super) fn fitted_to_sample(
        &self,
        batches: &[&[u32]],
        budget: LengthBudget,
    ) -> Result<Self> {
        let longest_rows: Vec<u32> = batches.iter().map(|rows| self.longest(rows)).collect();
        let fitted = LengthLadder::fitted(&longest_rows, 1, budget)?;
        Ok(Self { ladder: fitted.continued(&self.ladder)?, ..self.clone() })
    }

    fn longest(&self, rows: &[u32]) -> u32 {
        rows.iter().map(|&row| self.lengths[row as usize]).max().unwrap_or(0)
    }
}
