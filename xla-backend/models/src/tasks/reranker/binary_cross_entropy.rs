//! The relevance of each passage by itself, as `BinaryCrossEntropyLoss` has it.

use super::PassagesLoss;
use super::passages::Passages;
use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::softplus::softplus;

/// Passages with a label of 0 to 1; the loss is their mean.
#[derive(Clone, Debug)]
pub struct BinaryCrossEntropy {
    /// The passages of a row.
    pub passages: usize,
    /// The factor of the loss of relevant passages.
    pub pos_weight: f64,
}

impl PassagesLoss for BinaryCrossEntropy {
    fn passages(&self) -> usize {
        self.passages
    }

    fn loss_of(&self, passages: &Passages<'_>) -> Result<LossSum> {
        let Passages { scores, labels, .. } = passages;
        let relevant = labels.mul_scalar(self.pos_weight)?.mul(&softplus(&scores.neg()?)?)?;
        let irrelevant = labels.one_minus()?.mul(&softplus(scores)?)?;
        passages.mean(&relevant.add(&irrelevant)?)
    }
}
