//! Contrastive loss (Hadsell et al., 2006), as `ContrastiveLoss` has it.

use std::ops::RangeInclusive;

use super::{Distance, EmbeddedTexts, EmbeddingLoss, RowLabels};
use crate::error::Result;
use crate::model::LossSum;

/// Pairs with the label 1, which should be close, or 0, which should be apart by a margin.
#[derive(Clone, Debug)]
pub struct Contrastive {
    /// The distance of two embeddings.
    pub distance: Distance,
    /// The distance from which texts that differ have no loss.
    pub margin: f64,
}

impl EmbeddingLoss for Contrastive {
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
        let distances = self.distance.of_shifted_pairs(&texts.columns[0], &texts.columns[1])?;
        let (labels, missing) =
            (texts.numbers()?, distances.neg()?.add_scalar(self.margin)?.relu()?);
        let close = labels.mul(&distances.mul(&distances)?)?;
        let apart = labels.one_minus()?.mul(&missing.mul(&missing)?)?;
        texts.sum(&close.add(&apart)?.mul_scalar(0.5)?)
    }
}
