//! Embeddings that can be cut short (Kusupati et al., 2022), as `MatryoshkaLoss` has it.

use std::ops::RangeInclusive;
use std::sync::Arc;

use super::distances::normalized;
use super::{EmbeddedTexts, EmbeddingLoss, RowLabels};
use crate::error::Result;
use crate::model::LossSum;

/// Another loss, of the first numbers of each embedding, added up for several counts of them.
#[derive(Clone, Debug)]
pub struct Matryoshka {
    /// The loss of each prefix of the embeddings.
    pub loss: Arc<dyn EmbeddingLoss>,
    /// The counts of numbers, each with the weight of its loss; at least one.
    pub dims: Vec<(usize, f64)>,
}

impl EmbeddingLoss for Matryoshka {
    fn texts(&self) -> RangeInclusive<usize> {
        self.loss.texts()
    }

    fn labels(&self) -> RowLabels {
        self.loss.labels()
    }

    fn guide_width(&self) -> Option<usize> {
        self.loss.guide_width()
    }

    fn compares_rows(&self) -> bool {
        self.loss.compares_rows()
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let mut loss_sum = texts.weights.sum(&[0])?.mul_scalar(0.0)?;
        for &(dim, weight) in &self.dims {
            let shortened =
                texts.columns.iter().map(|column| normalized(&column.slice(1, 0, dim)?));
            let shortened = texts.with_columns(shortened.collect::<Result<_>>()?);
            let loss = self.loss.loss(&shortened)?;
            loss_sum = loss_sum.add(&loss.loss_sum.mul_scalar(weight)?)?;
        }
        Ok(LossSum { loss_sum, weight_sum: texts.weights.sum(&[0])? })
    }
}
