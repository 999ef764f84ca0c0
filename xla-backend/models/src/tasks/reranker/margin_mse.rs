//! The squared error of margins (Hofstätter et al., 2021), as `MarginMSELoss` has it.

use std::ops::RangeInclusive;

use super::passages::scores;
use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::embedding::{EmbeddedTexts, EmbeddingLoss, RowLabels};

/// A positive and `negatives`, with the margins by which its score should be above theirs.
#[derive(Clone, Debug)]
pub struct MarginMse {
    /// The negatives of each row.
    pub negatives: usize,
}

impl EmbeddingLoss for MarginMse {
    fn texts(&self) -> RangeInclusive<usize> {
        1 + self.negatives..=1 + self.negatives
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Numbers(self.negatives)
    }

    fn compares_rows(&self) -> bool {
        false
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let scores = scores(texts)?;
        let positive = scores.slice(1, 0, 1)?;
        let negatives = scores.slice(1, 1, 1 + self.negatives)?;
        let labels = texts.numbers()?.reshape(negatives.dims())?;
        let error = positive.sub(&negatives)?.sub(&labels)?;
        texts.sum(&error.mul(&error)?.mean(&[1])?)
    }
}
