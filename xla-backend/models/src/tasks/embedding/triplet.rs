//! Margins of triplets, as `TripletLoss` has it.

use std::ops::RangeInclusive;

use super::{Distance, EmbeddedTexts, EmbeddingLoss, RowLabels};
use crate::error::Result;
use crate::model::LossSum;

/// Anchors that should be closer to their positive than to their negative by a margin.
#[derive(Clone, Debug)]
pub struct Triplet {
    /// The distance of two embeddings.
    pub distance: Distance,
    /// The least difference of the two distances of a triplet.
    pub margin: f64,
}

impl EmbeddingLoss for Triplet {
    fn texts(&self) -> RangeInclusive<usize> {
        3..=3
    }

    fn labels(&self) -> RowLabels {
        RowLabels::None
    }

    fn compares_rows(&self) -> bool {
        false
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let [anchor, positive, negative] = [0, 1, 2].map(|column| &texts.columns[column]);
        let near = self.distance.of_pairs(anchor, positive)?;
        let far = self.distance.of_pairs(anchor, negative)?;
        texts.sum(&near.sub(&far)?.add_scalar(self.margin)?.relu()?)
    }
}
