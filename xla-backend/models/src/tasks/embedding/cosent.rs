//! The order of similarities (Huang et al., 2024), as `CoSENTLoss` has it: of two pairs, the one with the higher score
//! should be more similar.

use std::ops::RangeInclusive;

use super::texts::never;
use super::{EmbeddedTexts, EmbeddingLoss, RowLabels, Similarity};
use crate::error::Result;
use crate::model::LossSum;

/// Pairs with a score, which are compared with those of all cores and hosts.
#[derive(Clone, Debug)]
pub struct Cosent {
    /// The number that similarities are multiplied by.
    pub scale: f64,
    /// The similarity of two embeddings.
    pub similarity: Similarity,
}

impl EmbeddingLoss for Cosent {
    fn texts(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Numbers(1)
    }

    fn compares_rows(&self) -> bool {
        true
    }

    /// log(1 + Σ exp(s_i - s_j)) over the pairs of rows of which j has the higher label.
    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let scores = self.similarity.of_pairs(&texts.columns[0], &texts.columns[1])?;
        let scores = texts.peers.gather(&scores.mul_scalar(self.scale)?)?;
        let labels = texts.peers.gather(&texts.numbers()?)?;
        let empty = texts.empty_slots()?;
        let is_lower = labels.unsqueeze(1)?.lt(&labels.unsqueeze(0)?)?;
        let differences = scores.unsqueeze(1)?.sub(&scores.unsqueeze(0)?)?;
        let differences = differences.add(&never(&is_lower.not()?)?)?;
        let differences = differences.add(&empty.unsqueeze(0)?)?.add(&empty.unsqueeze(1)?)?;
        let all = differences.reshape(&[differences.shape().element_count()])?;
        texts.of_batch(&all.pad(0, 1, 0, 0.0)?.logsumexp(0)?)
    }
}
