//! Direct preference optimization (Rafailov et al., 2023) as TRL's DPOTrainer computes it: a model learns
//! to prefer the chosen completion of a prompt to the rejected one, by how much more probable each is
//! than to a frozen reference.
//!
//! P pairs, whose sequences are the rows of a batch: each chosen one before its rejected one.

mod completions;
mod divergence;
mod losses;
mod ranks;

use traind_xla::{DType, Tensor};

use super::sample_weights::{sample_weights, weighted};
use crate::error::Result;
use crate::model::{Batch, LossSum};
use crate::tensor_parallel::Logits;
use completions::{Completions, by_pair, column};
pub use divergence::Divergence;
use losses::Pairs;
pub use losses::PreferenceLoss;

/// The objective, under the names of TRL's DPOConfig.
#[derive(Clone, Debug)]
pub struct Preference {
    /// The losses whose sum a pair has, each with its weight.
    pub losses: Vec<(PreferenceLoss, f64)>,
    /// The weight of the divergence from the reference.
    pub beta: f64,
    /// The probability that a pair is labelled the wrong way round.
    pub label_smoothing: f64,
    /// The divergence that keeps the model near the reference.
    pub divergence: Divergence,
    /// The temperature of the loss `discopop`.
    pub discopop_tau: f64,
    /// The weight of tokens beyond the length of the shorter completion (Liu et al., 2024).
    pub ld_alpha: Option<f64>,
    /// Whether pairs weigh by how probable the model finds them (Zhou et al., 2024).
    pub use_weighting: bool,
}

/// The loss and the metrics of a core's pairs.
#[derive(Clone, Debug)]
pub struct Preferences {
    /// The loss of all rows.
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
        let completions = Completions::new(policy, batch, self.ld_alpha)?;
        let tokens = completions.token_log_probabilities(policy)?;
        let own = completions.log_probabilities(&tokens)?;
        let frozen = completions.token_log_probabilities(reference)?;
        let frozen = completions.log_probabilities(&frozen)?.stop_gradient()?;
        let ratios = own.sub(&frozen)?;
        let weights = column(&by_pair(&sample_weights(batch)?)?, 0)?;
        let metrics = self.metrics(&own.stop_gradient()?, &ratios.stop_gradient()?)?;
        let scores = self.divergence.scores(&ratios)?;
        let (preference, completions) = (self, &completions);
        let pairs = Pairs { preference, completions, tokens, own, frozen, scores, weights };
        let mut losses = self.losses(&pairs)?;
        if self.use_weighting {
            losses = losses.mul(&completions.confidence(policy, &pairs.tokens)?)?;
        }
        let loss = weighted(&losses, &pairs.weights)?;
        Ok(Preferences { loss, metrics, weights: pairs.weights })
    }

    /// The weighted sum of the losses of each pair, f32[P].
    fn losses(&self, pairs: &Pairs<'_>) -> Result<Tensor> {
        let mut sum: Option<Tensor> = None;
        for (loss, weight) in &self.losses {
            let losses = pairs.losses(*loss)?;
            let losses = if *weight == 1.0 { losses } else { losses.mul_scalar(*weight)? };
            sum = Some(match sum {
                Some(sum) => sum.add(&losses)?,
                None => losses,
            });
        }
        sum.map_or_else(|| Ok(pairs.weights.mul_scalar(0.0)?), Ok)
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
