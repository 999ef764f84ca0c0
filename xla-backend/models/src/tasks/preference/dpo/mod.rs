//! Direct preference optimization (Rafailov et al., 2023) as TRL's DPOTrainer computes it: a model learns
//! to prefer the chosen completion of a prompt to the rejected one, by how much more probable each is
//! than to a frozen reference.
//!
//! P pairs.

mod divergence;
mod losses;
mod ranks;

use traind_choices::DpoLoss;
use traind_xla::Tensor;

use super::completions::Completions;
use super::metrics::{OF_REWARDS, columns, of_rewards};
use super::{Compared, Metric, PreferenceObjective, Preferences};
use crate::error::Result;
use crate::tasks::sample_weights::weighted;
pub use divergence::Divergence;
use losses::Pairs;

/// The objective, under the names of TRL's DPOConfig.
#[derive(Clone, Debug)]
pub struct Dpo {
    /// The losses whose sum a pair has, each with its weight.
    pub losses: Vec<(DpoLoss, f64)>,
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

impl PreferenceObjective for Dpo {
    fn metrics(&self) -> &'static [Metric] {
        &OF_REWARDS
    }

    /// Compares the logits [2P, S, C] of the trained model with those of the reference.
    fn compare(&self, compared: &Compared<'_>) -> Result<Preferences> {
        let Compared { policy, batch, mesh, .. } = compared;
        let reference = compared.required_reference()?;
        let completions = Completions::new(policy, batch, self.ld_alpha)?;
        let tokens = completions.token_log_probabilities(policy)?;
        let own = completions.log_probabilities(&tokens)?;
        let frozen = completions.token_log_probabilities(reference)?;
        let frozen = completions.log_probabilities(&frozen)?.stop_gradient()?;
        let ratios = own.sub(&frozen)?;
        let weights = compared.pair_weights()?;
        let rewards = ratios.mul_scalar(self.beta)?;
        let metrics = columns(&of_rewards(&rewards.stop_gradient()?, &own.stop_gradient()?)?)?;
        let scores = self.divergence.scores(&ratios)?;
        let (objective, completions) = (self, &completions);
        let pairs = Pairs { objective, completions, tokens, own, frozen, scores, weights, mesh };
        let mut losses = self.losses(&pairs)?;
        if self.use_weighting {
            losses = losses.mul(&completions.confidence(policy, &pairs.tokens)?)?;
        }
        let loss = weighted(&losses, &pairs.weights)?;
        Ok(Preferences { loss, metrics, weights: pairs.weights })
    }
}

impl Dpo {
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
}
