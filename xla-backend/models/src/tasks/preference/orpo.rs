//! Odds ratio preference optimization (Hong et al., 2024) as TRL's ORPOTrainer computes it: a model learns the chosen
//! texts, and to prefer their completions to the rejected ones, without a reference.
//!
//! P pairs.

use super::completions::Completions;
use super::metrics::{columns, of_rewards, with_rewards};
use super::scalars::{log_1m_exp, margins};
use super::{Compared, Metric, PreferenceObjective, Preferences};
use crate::error::Result;
use crate::tasks::sample_weights::weighted;
use crate::tasks::softplus::softplus;

/// The objective, under the names of TRL's ORPOConfig.
#[derive(Clone, Debug)]
pub struct Orpo {
    /// The weight of the odds ratio, λ in the paper.
    pub beta: f64,
}

impl PreferenceObjective for Orpo {
    fn metrics(&self) -> &'static [Metric] {
        const METRICS: [Metric; 9] = with_rewards([
            Metric::of("nll_loss"),
            Metric::of("log_odds_ratio"),
            Metric::of("log_odds_chosen"),
        ]);
        &METRICS
    }

    fn compare(&self, compared: &Compared<'_>) -> Result<Preferences> {
        let Compared { policy, batch, mesh, .. } = compared;
        let completions = Completions::with_prompts(policy, batch)?;
        let tokens = completions.token_log_probabilities(policy)?;
        let sums = completions.log_probabilities(&tokens)?;
        let means = completions.means_of_predicted(&sums)?;
        let weights = compared.pair_weights()?;
        // The loss of all tokens behind the first, those of prompts included.
        let token_loss = completions.chosen_token_loss(&tokens, &weights, mesh)?;
        let log_odds = margins(&means.sub(&log_1m_exp(&means)?)?)?;
        let log_ratio = softplus(&log_odds.neg()?)?.neg()?;
        let losses = token_loss.sub(&log_ratio.mul_scalar(self.beta)?)?;
        let loss = weighted(&losses, &weights)?;
        let mut metrics = of_rewards(&means.mul_scalar(self.beta)?, &means)?;
        metrics.extend([token_loss, log_ratio, log_odds]);
        Ok(Preferences { loss, metrics: columns(&metrics)?, weights })
    }
}
