//! The squared error of scores, as `MSELoss` has it.

use super::PassagesLoss;
use super::passages::Passages;
use crate::error::Result;
use crate::model::LossSum;

/// Passages with the score that they should have; the loss is their mean.
#[derive(Clone, Debug)]
pub struct Mse {
    /// The passages of a row.
    pub passages: usize,
}

impl PassagesLoss for Mse {
    fn passages(&self) -> usize {
        self.passages
    }

    fn loss_of(&self, passages: &Passages<'_>) -> Result<LossSum> {
        let error = passages.scores.sub(&passages.labels)?;
        passages.mean(&error.mul(&error)?)
    }
}
