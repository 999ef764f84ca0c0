//! Contrastive preference optimization (Xu et al., 2024) and SimPO (Meng et al., 2024), as TRL's CPOTrainer computes
//! them: a model learns to prefer the chosen completion of a prompt without a reference.
//!
//! P pairs.

use traind_xla::Tensor;

use super::completions::Completions;
use super::metrics::{columns, of_rewards, with_rewards};
use super::scalars::{margins, smoothed_sigmoid_loss, square};
use super::{Compared, Metric, PreferenceObjective, Preferences};
use crate::error::Result;
use crate::tasks::sample_weights::weighted;

/// The loss of a pair by the margin m of the log-probabilities of its completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CpoLoss {
    /// -log σ(β m)
    Sigmoid,
    /// max(0, 1 - β m)
    Hinge,
    /// (m - 1 / 2β)², where log-probabilities are means over tokens.
    Ipo,
    /// -log σ(β m - γ), where log-probabilities are means over tokens.
    Simpo,
}

/// The objective, under the names of TRL's CPOConfig.
#[derive(Clone, Debug)]
pub struct Cpo {
    /// The loss of a pair.
    pub loss: CpoLoss,
    /// The weight of the margin of log-probabilities.
    pub beta: f64,
    /// The probability that labels are flipped, for `Sigmoid` and `Simpo`.
    pub label_smoothing: f64,
    /// The weight of the mean loss of the tokens of all chosen completions.
    pub cpo_alpha: f64,
    /// The margin γ of `Simpo`.
    pub simpo_gamma: f64,
    /// The shape α of rewards: `(1 - p^-α) / α` of a completion of probability p (Gupta et al., 2025), or log p for 0.
    pub alpha: f64,
}

impl PreferenceObjective for Cpo {
    fn metrics(&self) -> &'static [Metric] {
        const METRICS: [Metric; 7] = with_rewards([Metric::of("nll_loss")]);
        &METRICS
    }

    fn compare(&self, compared: &Compared<'_>) -> Result<Preferences> {
        let Compared { policy, batch, mesh, .. } = compared;
        let completions = Completions::new(policy, batch, None)?;
        let tokens = completions.token_log_probabilities(policy)?;
        let sums = completions.log_probabilities(&tokens)?;
        let log_probabilities = match self.loss {
            CpoLoss::Ipo | CpoLoss::Simpo => completions.means_of_predicted(&sums)?,
            CpoLoss::Sigmoid | CpoLoss::Hinge => sums,
        };
        let scores = self.scores(&log_probabilities)?;
        let weights = compared.pair_weights()?;
        let mut losses = self.losses(&margins(&scores)?)?;
        let token_loss = match self.cpo_alpha {
            0.0 => weights.mul_scalar(0.0)?,
            alpha => {
                let token_loss = completions.chosen_token_loss(&tokens, &weights, mesh)?;
                losses = losses.add(&token_loss.mul_scalar(alpha)?)?;
                token_loss
            }
        };
        let loss = weighted(&losses, &weights)?;
        let mut metrics = of_rewards(&scores.mul_scalar(self.beta)?, &log_probabilities)?;
        metrics.push(token_loss);
        Ok(Preferences { loss, metrics: columns(&metrics)?, weights })
    }
}

impl Cpo {
    /// The scores of completions with log-probabilities f32[P, 2].
    fn scores(&self, log_probabilities: &Tensor) -> Result<Tensor> {
        if self.alpha == 0.0 {
            return Ok(log_probabilities.clone());
        }
        let powers = log_probabilities.mul_scalar(-self.alpha)?.exp()?;
        Ok(powers.one_minus()?.mul_scalar(1.0 / self.alpha)?)
    }

    /// The loss of each pair by its margin, f32[P].
    fn losses(&self, margins: &Tensor) -> Result<Tensor> {
        let scaled = margins.mul_scalar(self.beta)?;
        match self.loss {
            CpoLoss::Sigmoid => smoothed_sigmoid_loss(&scaled, self.label_smoothing),
            CpoLoss::Hinge => Ok(scaled.one_minus()?.relu()?),
            CpoLoss::Ipo => square(&margins.sub_scalar(0.5 / self.beta)?),
            CpoLoss::Simpo => {
                let scaled = scaled.sub_scalar(self.simpo_gamma)?;
                smoothed_sigmoid_loss(&scaled, self.label_smoothing)
            }
        }
    }
}
