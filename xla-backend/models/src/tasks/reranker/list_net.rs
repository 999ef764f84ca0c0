//! The shares of the passages of a list (Cao et al., 2007), as `ListNetLoss` has it.

use super::PassagesLoss;
use super::passages::Passages;
use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::embedding::never;

/// The cross entropy of the softmax of scores and that of labels, of each row.
#[derive(Clone, Debug)]
pub struct ListNet {
    /// The passages of a row.
    pub passages: usize,
}

impl PassagesLoss for ListNet {
    fn passages(&self) -> usize {
        self.passages
    }

    fn loss_of(&self, passages: &Passages<'_>) -> Result<LossSum> {
        let missing = never(&passages.weights.le_scalar(0.0)?)?;
        let shares = passages.labels.add(&missing)?.softmax(1)?;
        let logarithms = passages.scores.add(&missing)?.log_softmax(1)?;
        // Passages that a list lacks have the share 0 and a finite logarithm.
        passages.texts.sum(&shares.mul(&logarithms)?.sum(&[1])?.neg()?)
    }
}
