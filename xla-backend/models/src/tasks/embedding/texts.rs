//! The embeddings of a batch by their columns.

use traind_xla::{DType, Tensor};

use super::{GUIDE_VECTORS, Peers};
use crate::error::Result;
use crate::model::{Batch, LossSum};
use crate::tasks::sample_weights::{sample_weights, weighted};

/// The number that is added to scores that do not count, for the exponential of which float32 has 0.
const NEVER: f64 = -1e30;

/// The embeddings of a core's rows.
pub struct EmbeddedTexts<'a> {
    /// The embeddings of each column of texts, f32[n, D].
    pub columns: Vec<Tensor>,
    /// The labels, s32`[n]`, f32`[n]` or f32[n, W].
    pub labels: Option<Tensor>,
    /// The guide's vectors of each column of texts, f32[n, G].
    pub guide: Option<Vec<Tensor>>,
    /// The weight of each row, f32`[n]`: 0 for an empty slot.
    pub weights: Tensor,
    pub(super) peers: &'a Peers,
}

impl<'a> EmbeddedTexts<'a> {
    /// Divides `embeddings` f32[n K, D], `count` of each row.
    pub(super) fn of(
        embeddings: &Tensor,
        count: usize,
        batch: &Batch,
        peers: &'a Peers,
    ) -> Result<EmbeddedTexts<'a>> {
        let columns = |x: &Tensor| -> Result<Vec<Tensor>> {
            (0..count).map(|column| column_of(x, count, column)).collect()
        };
        let labels = batch.optional("labels").map(|labels| column_of(labels, count, 0));
        Ok(EmbeddedTexts {
            columns: columns(embeddings)?,
            labels: labels.transpose()?,
            guide: batch.optional(GUIDE_VECTORS).map(columns).transpose()?,
            weights: column_of(&sample_weights(batch)?, count, 0)?,
            peers,
        })
    }

    /// The same rows with other embeddings.
    pub(super) fn with_columns(&self, columns: Vec<Tensor>) -> EmbeddedTexts<'a> {
        let (labels, guide) = (self.labels.clone(), self.guide.clone());
        EmbeddedTexts { columns, labels, guide, weights: self.weights.clone(), peers: self.peers }
    }

    /// The labels as numbers, f32[n] or f32[n, W]; zeros where there are none.
    pub(in crate::tasks) fn numbers(&self) -> Result<Tensor> {
        match &self.labels {
            Some(labels) => Ok(labels.convert(DType::F32)?),
            None => Ok(self.weights.mul_scalar(0.0)?),
        }
    }

    /// The weights of the rows of all cores, f32[N].
    pub(super) fn all_weights(&self) -> Result<Tensor> {
        self.peers.gather(&self.weights)
    }

    /// 0 for each row of all cores, and for empty slots a score that never counts: f32[N].
    pub(super) fn empty_slots(&self) -> Result<Tensor> {
        never(&self.all_weights()?.le_scalar(0.0)?)
    }

    /// The sum of a scalar of each core over all of them, without the gradients of the others.
    pub(in crate::tasks) fn of_all(&self, x: &Tensor) -> Result<Tensor> {
        Ok(self.peers.gather(&x.stop_gradient()?.unsqueeze(0)?)?.sum(&[0])?)
    }

    /// The sum of `losses` f32[n], each times its weight.
    pub(in crate::tasks) fn sum(&self, losses: &Tensor) -> Result<LossSum> {
        weighted(losses, &self.weights)
    }

    /// A loss of the whole batch, a scalar that all cores know: each adds it for its own rows.
    pub(super) fn of_batch(&self, loss: &Tensor) -> Result<LossSum> {
        let weight_sum = self.weights.sum(&[0])?;
        Ok(LossSum { loss_sum: loss.mul(&weight_sum)?, weight_sum })
    }
}

/// A score that never counts where `condition` holds, and 0 elsewhere.
pub(in crate::tasks) fn never(condition: &Tensor) -> Result<Tensor> {
    Ok(condition.convert(DType::F32)?.mul_scalar(NEVER)?)
}

/// Every `count`th row of `x` [n K, ...], from row `column` on.
fn column_of(x: &Tensor, count: usize, column: usize) -> Result<Tensor> {
    if count == 1 {
        return Ok(x.clone());
    }
    let mut dims = x.dims().to_vec();
    dims[0] /= count;
    dims.insert(1, count);
    Ok(x.reshape(&dims)?.slice(1, column, column + 1)?.squeeze(1)?)
}
