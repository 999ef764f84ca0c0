//! The scores of a batch with their labels.

use traind_xla::{DType, Tensor};

use super::NO_PASSAGE;
use crate::error::Result;
use crate::model::LossSum;
use crate::tasks::embedding::EmbeddedTexts;

/// The passages of a core's rows.
pub(crate) struct Passages<'a> {
    pub texts: &'a EmbeddedTexts<'a>,
    /// f32[n, K].
    pub scores: Tensor,
    /// f32[n, K], 0 for a passage that a list lacks.
    pub labels: Tensor,
    /// 1 for the passages that rows have, times the weight of the row: f32[n, K].
    pub weights: Tensor,
}

impl<'a> Passages<'a> {
    pub(super) fn of(texts: &'a EmbeddedTexts<'a>) -> Result<Passages<'a>> {
        let scores = scores(texts)?;
        let labels = texts.numbers()?.reshape(scores.dims())?;
        let has_passage = labels.gt_scalar(NO_PASSAGE)?;
        let zeros = labels.mul_scalar(0.0)?;
        let labels = has_passage.select(&labels, &zeros)?;
        let weights = has_passage.convert(DType::F32)?.mul(&texts.weights.unsqueeze(1)?)?;
        Ok(Passages { texts, scores, labels, weights })
    }

    /// 1 for each passage of a row that counts, f32[n, K].
    pub(super) fn counts(&self) -> Result<Tensor> {
        Ok(self.weights.gt_scalar(0.0)?.convert(DType::F32)?)
    }

    /// The mean of `losses` f32[n, K] over passages.
    pub(super) fn mean(&self, losses: &Tensor) -> Result<LossSum> {
        Ok(LossSum {
            loss_sum: losses.mul(&self.weights)?.sum(&[0, 1])?,
            weight_sum: self.weights.sum(&[0, 1])?,
        })
    }
}

/// The score of each passage, f32[n, K].
pub(super) fn scores(texts: &EmbeddedTexts<'_>) -> Result<Tensor> {
    let columns: Vec<&Tensor> = texts.columns.iter().collect();
    Ok(columns[0].trace().concatenate(&columns, 1)?)
}
