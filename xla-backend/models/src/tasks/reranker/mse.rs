//! The squared error of scores, as `MSELoss` has it.

use std::ops::RangeInclusive;

use super::passages::Passages;
use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::embedding::{EmbeddedTexts, EmbeddingLoss, RowLabels};

/// Passages with the score that they should have; the loss is their mean.
#[derive(Clone, Debug)]
pub struct Mse {
    /// The passages of a row.
    pub passages: usize,
}

impl EmbeddingLoss for Mse {
    fn texts(&self) -> RangeInclusive<usize> {
        self.passages..=self.passages
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Numbers(self.passages)
    }

    fn compares_rows(&self) -> bool {
        false
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let passages = Passages::of(texts)?;
        let error = passages.scores.sub(&passages.labels)?;
        passages.mean(&error.mul(&error)?)
    }
}
