//! Contrastive loss of the hard pairs of a batch alone, as `OnlineContrastiveLoss` has it.

use std::ops::RangeInclusive;

use traind_xla::{DType, Tensor};

use super::{Distance, EmbeddedTexts, EmbeddingLoss, RowLabels};
use crate::error::Result;
use crate::model::LossSum;

/// A number above every distance.
const FAR: f64 = 1e30;

/// Pairs with the label 1, which should be close, or 0, which should be apart by a margin. Pairs of one label count
/// that are nearer or farther than the farthest or nearest of the other, on all cores and hosts. The loss of a batch is
/// their sum, not their mean.
#[derive(Clone, Debug)]
pub struct OnlineContrastive {
    /// The distance of two embeddings.
    pub distance: Distance,
    /// The distance from which texts that differ have no loss.
    pub margin: f64,
}

impl EmbeddingLoss for OnlineContrastive {
    fn texts(&self) -> RangeInclusive<usize> {
        2..=2
    }

    fn labels(&self) -> RowLabels {
        RowLabels::Numbers(1)
    }

    fn compares_rows(&self) -> bool {
        true
    }

    fn loss(&self, texts: &EmbeddedTexts<'_>) -> Result<LossSum> {
        let distances = self.distance.of_shifted_pairs(&texts.columns[0], &texts.columns[1])?;
        let labels = texts.numbers()?;
        let own = Pairs::new(&distances, &labels, &texts.weights)?;
        let all = Pairs::new(
            &texts.peers.gather(&distances.stop_gradient()?)?,
            &texts.peers.gather(&labels)?,
            &texts.all_weights()?,
        )?;
        let farthest = all.farthest_positive_or_mean_negative()?;
        let nearest = all.nearest_negative_or_mean_positive()?;
        let is_hard_negative = distances.lt(&farthest)?.convert(DType::F32)?;
        let is_hard_positive = distances.gt(&nearest)?.convert(DType::F32)?;
        let missing = distances.neg()?.add_scalar(self.margin)?.relu()?;
        let positives = distances.mul(&distances)?.mul(&own.positive)?.mul(&is_hard_positive)?;
        let negatives = missing.mul(&missing)?.mul(&own.negative)?.mul(&is_hard_negative)?;
        // Divided by all rows later, as other losses are.
        let rows = texts.all_weights()?.sum(&[0])?;
        let loss_sum = positives.add(&negatives)?.sum(&[0])?.mul(&rows)?;
        Ok(LossSum { loss_sum, weight_sum: texts.weights.sum(&[0])? })
    }
}

/// The distances of pairs, and 1 for those of each label.
struct Pairs {
    distances: Tensor,
    positive: Tensor,
    negative: Tensor,
}

impl Pairs {
    fn new(distances: &Tensor, labels: &Tensor, weights: &Tensor) -> Result<Pairs> {
        let with = |label: f64| -> Result<Tensor> {
            let has_label = labels.eq_scalar(label)?.and(&weights.gt_scalar(0.0)?)?;
            Ok(has_label.convert(DType::F32)?)
        };
        let (positive, negative) = (with(1.0)?, with(0.0)?);
        Ok(Pairs { distances: distances.clone(), positive, negative })
    }

    fn farthest_positive_or_mean_negative(&self) -> Result<Tensor> {
        let others = self.positive.one_minus()?.mul_scalar(-FAR)?;
        let farthest = self.distances.mul(&self.positive)?.add(&others)?.max(&[0])?;
        let mean = mean(&self.distances, &self.negative)?;
        Ok(self.positive.max(&[0])?.gt_scalar(0.0)?.select(&farthest, &mean)?)
    }

    fn nearest_negative_or_mean_positive(&self) -> Result<Tensor> {
        let others = self.negative.one_minus()?.mul_scalar(FAR)?;
        let nearest = self.distances.mul(&self.negative)?.add(&others)?.min(&[0])?;
        let mean = mean(&self.distances, &self.positive)?;
        Ok(self.negative.max(&[0])?.gt_scalar(0.0)?.select(&nearest, &mean)?)
    }
}

/// The mean of the distances that `counts` is 1 for.
fn mean(distances: &Tensor, counts: &Tensor) -> Result<Tensor> {
    let count = counts.sum(&[0])?.maximum_scalar(1.0)?;
    Ok(distances.mul(counts)?.sum(&[0])?.div(&count)?)
}
