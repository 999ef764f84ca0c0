//! The squared error of a teacher's embeddings (Reimers and Gurevych, 2020), as `MSELoss` has it.

use std::ops::RangeInclusive;

use super::{EmbeddedTexts, EmbeddingLoss, RowLabels};
use crate::error::Result;
use crate::model::LossSum;

/// Texts with the embedding that each of them should have.
#[derive(Clone, Debug)]
pub struct Mse {
    /// The numbers of an embedding.
    pub width: usize,
}

impl EmbeddingLoss for Mse {
    fn texts(&self) -> RangeInclusive<usize> {
        1..=usize::MAX
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Numbers(self.width)
    }

    fn compares_rows(&self) -> bool {
        false
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let teacher = texts.numbers()?;
        let mut sum = texts.weights.mul_scalar(0.0)?;
        for column in &texts.columns {
            let error = column.sub(&teacher)?;
            sum = sum.add(&error.mul(&error)?.mean(&[1])?)?;
        }
        texts.sum(&sum.mul_scalar(1.0 / texts.columns.len() as f64)?)
    }
}
