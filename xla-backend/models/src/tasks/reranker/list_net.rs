//! The shares of the passages of a list (Cao et al., 2007), as `ListNetLoss` has it.

use std::ops::RangeInclusive;

use super::passages::Passages;
use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::embedding::{EmbeddedTexts, EmbeddingLoss, RowLabels, never};

/// The cross entropy of the softmax of scores and that of labels, of each row.
#[derive(Clone, Debug)]
pub struct ListNet {
    /// The passages of a row.
    pub passages: usize,
}

impl EmbeddingLoss for ListNet {
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
        let missing = never(&passages.weights.le_scalar(0.0)?)?;
        let shares = passages.labels.add(&missing)?.softmax(1)?;
        let logarithms = passages.scores.add(&missing)?.log_softmax(1)?;
        // Of what a list lacks, the share is 0 and the logarithm finite.
        texts.sum(&shares.mul(&logarithms)?.sum(&[1])?.neg()?)
    }
}
