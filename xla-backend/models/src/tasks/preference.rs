//! Direct preference optimization (Rafailov et al., 2023) as TRL's DPOTrainer computes it: a model learns
//! to prefer the chosen completion of a prompt to the rejected one, by how much more probable each is
//! than to a frozen reference.
//!
//! P pairs, whose sequences are the rows of a batch: each chosen one before its rejected one.

use traind_xla::{DType, Tensor};

use super::sample_weights::{sample_weights, weighted};
use super::token_labels::{is_class, next};
use crate::error::Result;
use crate::model::{Batch, LossSum};
use crate::tensor_parallel::Logits;

/// The loss of a pair, by its margin: the difference of the completions' log-ratios.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PreferenceLoss {
    /// -log σ(β margin)
    Sigmoid,
    /// max(0, 1 - β margin)
    Hinge,
    /// (margin - 1 / 2β)², where the log-ratios are means over tokens (Azar et al., 2023).
    Ipo,
    /// The sigmoid loss where labels are flipped with the probability `label_smoothing` (Chowdhury et
    /// al., 2024).
    Robust,
}

/// The objective, under the names of TRL's DPOConfig.
#[derive(Clone, Copy, Debug)]
pub struct Preference {
    pub loss_type: PreferenceLoss,
    pub beta: f64,
    pub label_smoothing: f64,
}

/// The loss and the metrics of a core's pairs.
#[derive(Clone, Debug)]
pub struct Preferences {
    pub loss: LossSum,
    /// f32[P, M], in the order of [`Preference::METRICS`].
    pub metrics: Tensor,
    /// The weights of the pairs, f32[P].
    pub weights: Tensor,
}

impl Preferences {
    /// The sums of the metrics over the pairs, f32[M].
    pub fn metric_sums(&self) -> Result<Tensor> {
        Ok(self.metrics.mul(&self.weights.unsqueeze(1)?)?.sum(&[0])?)
    }
}

impl Preference {
    /// TRL's names of a pair's metrics.
    pub const METRICS: [&str; 6] = [
        "rewards/chosen",
        "rewards/rejected",
        "rewards/accuracies",
        "rewards/margins",
        "logps/chosen",
        "logps/rejected",
    ];

    /// Compares the logits [2P, S, C] of the trained model with those of the reference.
    pub fn compare(
        &self,
        policy: &Logits,
        reference: &Logits,
        batch: &Batch,
    ) -> Result<Preferences> {
        let own = log_probabilities(policy, batch)?;
        let ratios = own.sub(&log_probabilities(reference, batch)?.stop_gradient()?)?;
        let losses = self.losses(&ratios, policy, batch)?;
        let weights = column(&by_pair(&sample_weights(batch)?)?, 0)?;
        let metrics = self.metrics(&own.stop_gradient()?, &ratios.stop_gradient()?)?;
        Ok(Preferences { loss: weighted(&losses, &weights)?, metrics, weights })
    }

    /// The losses f32[P] of log-ratios f32[P, 2].
    fn losses(&self, ratios: &Tensor, policy: &Logits, batch: &Batch) -> Result<Tensor> {
        let scaled = || Ok::<_, crate::Error>(margins(ratios)?.mul_scalar(self.beta)?);
        Ok(match self.loss_type {
            PreferenceLoss::Sigmoid => softplus(&scaled()?.neg()?)?,
            PreferenceLoss::Hinge => scaled()?.one_minus()?.relu()?,
            PreferenceLoss::Ipo => {
                let means = ratios.div(&token_counts(policy, batch)?)?;
                let beyond = margins(&means)?.sub_scalar(0.5 / self.beta)?;
                beyond.mul(&beyond)?
            }
            PreferenceLoss::Robust => {
                let (margins, flipped) = (scaled()?, self.label_smoothing);
                let right = softplus(&margins.neg()?)?.mul_scalar(1.0 - flipped)?;
                let wrong = softplus(&margins)?.mul_scalar(flipped)?;
                right.sub(&wrong)?.mul_scalar(1.0 / (1.0 - 2.0 * flipped))?
            }
        })
    }

    fn metrics(&self, own: &Tensor, ratios: &Tensor) -> Result<Tensor> {
        let rewards = ratios.mul_scalar(self.beta)?;
        let [chosen, rejected] = [column(&rewards, 0)?, column(&rewards, 1)?];
        let columns = [
            chosen.clone(),
            rejected.clone(),
            chosen.gt(&rejected)?.convert(DType::F32)?,
            chosen.sub(&rejected)?,
            column(own, 0)?,
            column(own, 1)?,
        ];
        let columns = columns.iter().map(|column| column.unsqueeze(1));
        let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
        Ok(own.trace().concatenate(&columns.iter().collect::<Vec<_>>(), 1)?)
    }
}

/// The log-probability of each completion, f32[P, 2]: the sum of those of its tokens.
fn log_probabilities(logits: &Logits, batch: &Batch) -> Result<Tensor> {
    let labels = next(batch.get("labels")?)?;
    let tokens = labels.shape().element_count();
    let losses = logits.flatten()?.cross_entropy(&labels.reshape(&[tokens])?)?;
    by_pair(&losses.reshape(labels.dims())?.sum(&[1])?.neg()?)
}

/// The number of tokens of each completion, at least 1: f32[P, 2].
fn token_counts(logits: &Logits, batch: &Batch) -> Result<Tensor> {
    let counted = is_class(batch.get("labels")?, logits.classes())?;
    let counts = counted.convert(DType::F32)?.sum(&[1])?;
    by_pair(&counts.maximum_scalar(1.0)?)
}

/// Values of rows, f32[2P], by their pairs: f32[P, 2].
fn by_pair(values: &Tensor) -> Result<Tensor> {
    Ok(values.reshape(&[values.shape().element_count() / 2, 2])?)
}

/// A column of values [P, 2]: [P].
fn column(values: &Tensor, index: usize) -> Result<Tensor> {
    Ok(values.slice(1, index, index + 1)?.squeeze(1)?)
}

fn margins(ratios: &Tensor) -> Result<Tensor> {
    Ok(column(ratios, 0)?.sub(&column(ratios, 1)?)?)
}

/// `log(1 + exp(x))`, which is `-log σ(-x)`, without overflow for any x.
fn softplus(x: &Tensor) -> Result<Tensor> {
    let tail = x.abs()?.neg()?.exp()?.log1p()?;
    Ok(x.maximum_scalar(0.0)?.add(&tail)?)
}
