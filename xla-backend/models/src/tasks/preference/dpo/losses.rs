//! The losses of pairs, under the names of TRL.
//!
//! P pairs.

use traind_choices::DpoLoss;
use traind_xla::Tensor;
use traind_xla::mesh::Mesh;

use super::super::completions::Completions;
use super::super::scalars::{column, margins, square};
use super::Dpo;
use super::ranks::of_equal_rank;
use crate::error::Result;
use crate::tasks::softplus::softplus;

/// The pairs of a batch, as losses see them.
pub(super) struct Pairs<'a> {
    pub objective: &'a Dpo,
    pub completions: &'a Completions,
    /// The model's log-probabilities of tokens, f32[2P, S].
    pub tokens: Tensor,
    /// The log-probabilities of completions by the model and by the reference, f32[P, 2].
    pub own: Tensor,
    pub frozen: Tensor,
    /// The scores of completions, f32[P, 2].
    pub scores: Tensor,
    /// f32[P]; 0 for empty slots.
    pub weights: Tensor,
    /// The cores that share the batch.
    pub mesh: &'a Mesh,
}

impl Pairs<'_> {
    /// The loss of each pair, f32[P].
    pub(super) fn losses(&self, loss: DpoLoss) -> Result<Tensor> {
        match loss {
            DpoLoss::Sigmoid => softplus(&self.scaled_margins()?.neg()?),
            DpoLoss::Hinge => Ok(self.scaled_margins()?.one_minus()?.relu()?),
            DpoLoss::Ipo => square(&self.mean_margins()?.sub_scalar(self.half())?),
            DpoLoss::ExoPair => self.exo_pair(),
            DpoLoss::NcaPair => self.nca_pair(),
            DpoLoss::Robust => self.robust(),
            DpoLoss::BcoPair => {
                let [chosen, rejected] = self.rewards()?;
                Ok(softplus(&chosen.neg()?)?.add(&softplus(&rejected)?)?)
            }
            DpoLoss::SppoHard => {
                let chosen = square(&column(&self.scores, 0)?.sub_scalar(self.half())?)?;
                Ok(chosen.add(&square(&column(&self.scores, 1)?.add_scalar(self.half())?)?)?)
            }
            DpoLoss::Aot => self.ranked(&margins(&self.own)?, &margins(&self.frozen)?),
            DpoLoss::AotUnpaired => {
                self.ranked(&column(&self.scores, 0)?, &column(&self.scores, 1)?)
            }
            DpoLoss::ApoZero => {
                let [chosen, rejected] = self.rewards()?;
                Ok(chosen.logistic()?.one_minus()?.add(&rejected.logistic()?)?)
            }
            DpoLoss::ApoDown => {
                let [chosen, _] = self.rewards()?;
                Ok(chosen.logistic()?.add(&self.scaled_margins()?.logistic()?.one_minus()?)?)
            }
            DpoLoss::Discopop => self.discopop(),
            DpoLoss::Sft => {
                self.completions.chosen_token_loss(&self.tokens, &self.weights, self.mesh)
            }
            DpoLoss::SigmoidNorm => {
                softplus(&self.mean_margins()?.mul_scalar(-self.objective.beta)?)
            }
        }
    }

    fn exo_pair(&self) -> Result<Tensor> {
        let (scaled, flipped) = (self.scaled_margins()?, self.objective.label_smoothing);
        // The share of one completion times how far its logarithm is from the smoothed label's.
        let part = |scaled: &Tensor, label: f64| {
            let distance = softplus(&scaled.neg()?)?.neg()?.sub_scalar(label.ln())?;
            Ok::<_, crate::Error>(scaled.logistic()?.mul(&distance)?)
        };
        Ok(part(&scaled, 1.0 - flipped)?.add(&part(&scaled.neg()?, flipped)?)?)
    }

    fn nca_pair(&self) -> Result<Tensor> {
        let [chosen, rejected] = self.rewards()?;
        let lowered = softplus(&chosen)?.add(&softplus(&rejected)?)?.mul_scalar(0.5)?;
        Ok(softplus(&chosen.neg()?)?.add(&lowered)?)
    }

    fn robust(&self) -> Result<Tensor> {
        let (scaled, flipped) = (self.scaled_margins()?, self.objective.label_smoothing);
        let right = softplus(&scaled.neg()?)?.mul_scalar(1.0 - flipped)?;
        let wrong = softplus(&scaled)?.mul_scalar(flipped)?;
        Ok(right.sub(&wrong)?.mul_scalar(1.0 / (1.0 - 2.0 * flipped))?)
    }

    /// The smoothed sigmoid loss between `above` f32[P] and the value of `below` f32[P] of the same rank.
    fn ranked(&self, above: &Tensor, below: &Tensor) -> Result<Tensor> {
        let flipped = self.objective.label_smoothing;
        let below = of_equal_rank(above, below, &self.weights)?;
        let scaled = above.sub(&below)?.mul_scalar(self.objective.beta)?;
        let right = softplus(&scaled.neg()?)?.mul_scalar(1.0 - flipped)?;
        Ok(right.add(&softplus(&scaled)?.mul_scalar(flipped)?)?)
    }

    fn discopop(&self) -> Result<Tensor> {
        let scaled = self.scaled_margins()?;
        let share = scaled.mul_scalar(1.0 / self.objective.discopop_tau)?.logistic()?;
        let logistic = softplus(&scaled.neg()?)?.mul(&share.one_minus()?)?;
        Ok(logistic.add(&scaled.neg()?.exp()?.mul(&share)?)?)
    }

    /// β times the scores of the chosen and of the rejected completions, f32[P] each.
    fn rewards(&self) -> Result<[Tensor; 2]> {
        let rewards = self.scores.mul_scalar(self.objective.beta)?;
        Ok([column(&rewards, 0)?, column(&rewards, 1)?])
    }

    fn scaled_margins(&self) -> Result<Tensor> {
        Ok(margins(&self.scores)?.mul_scalar(self.objective.beta)?)
    }

    /// The margins of the scores' means over tokens.
    fn mean_margins(&self) -> Result<Tensor> {
        margins(&self.completions.means(&self.scores)?)
    }

    /// 1 / 2β.
    fn half(&self) -> f64 {
        0.5 / self.objective.beta
    }
}
