//! One of several classes, as `CrossEntropyLoss` has it.

use std::ops::RangeInclusive;

use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::embedding::{EmbeddedTexts, EmbeddingLoss, RowLabels};

/// Pairs with a class, for each of which the model has a logit.
#[derive(Clone, Debug)]
pub struct CrossEntropy;

impl EmbeddingLoss for CrossEntropy {
    fn texts(&self) -> RangeInclusive<usize> {
        1..=1
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Class
    }

    fn compares_rows(&self) -> bool {
        false
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        match &texts.labels {
            Some(labels) => texts.sum(&texts.columns[0].cross_entropy(labels)?),
            None => texts.sum(&texts.weights.mul_scalar(0.0)?),
        }
    }
}
