//! The squared error of cosines, as `CosineSimilarityLoss` has it.

use std::ops::RangeInclusive;

use super::{EmbeddedTexts, EmbeddingLoss, RowLabels, Similarity};
use crate::error::Result;
use crate::model::LossSum;

/// Pairs with the cosine that they should have.
#[derive(Clone, Debug)]
pub struct CosineSimilarity;

impl EmbeddingLoss for CosineSimilarity {
    fn texts(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Numbers(1)
    }

    fn compares_rows(&self) -> bool {
        false
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let cosines = Similarity::CosSim.of_pairs(&texts.columns[0], &texts.columns[1])?;
        let error = cosines.sub(&texts.numbers()?)?;
        texts.sum(&error.mul(&error)?)
    }
}
