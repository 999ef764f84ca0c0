//! The squared error of margins (Hofstätter et al., 2021), as `MarginMSELoss` has it.

use std::ops::RangeInclusive;

use super::{EmbeddedTexts, EmbeddingLoss, RowLabels, Similarity};
use crate::error::Result;
use crate::model::LossSum;

/// A query, a positive and `negatives`, with the margins by which the positive should be more similar to the query than
/// each negative.
#[derive(Clone, Debug)]
pub struct MarginMse {
    /// The similarity of two embeddings.
    pub similarity: Similarity,
    /// The negatives of each row.
    pub negatives: usize,
}

impl EmbeddingLoss for MarginMse {
    fn texts(&self) -> RangeInclusive<usize> {
        2 + self.negatives..=2 + self.negatives
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Numbers(self.negatives)
    }

    fn compares_rows(&self) -> bool {
        false
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let (query, rows) = (&texts.columns[0], texts.columns[0].dims()[0]);
        let labels = texts.numbers()?.reshape(&[rows, self.negatives])?;
        let positive = self.similarity.of_pairs(query, &texts.columns[1])?;
        let mut sum = texts.weights.mul_scalar(0.0)?;
        for (place, negative) in texts.columns[2..].iter().enumerate() {
            let margin = positive.sub(&self.similarity.of_pairs(query, negative)?)?;
            let error = margin.sub(&labels.slice(1, place, place + 1)?.squeeze(1)?)?;
            sum = sum.add(&error.mul(&error)?)?;
        }
        texts.sum(&sum.mul_scalar(1.0 / self.negatives as f64)?)
    }
}
