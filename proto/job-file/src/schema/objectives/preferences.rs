//! `reward`, `orpo`, `cpo` and `kto`: the objectives of preferences besides `dpo`, under the names of TRL.

use std::ops::Bound;

use crate::section::{above, section};
use crate::spelled::spelled;
use crate::values::ModelSource;

section! {
    /// The objective of `task: reward`, under the names of TRL's RewardConfig.
    pub struct Reward {
        /// Weight of the squared sum of a pair's rewards, which centers rewards at 0, such as 0.01; none
        /// by default.
        center_rewards_coefficient: Option<f64> = None, in above(0.0);
        /// Train without dropout.
        disable_dropout: bool = true;
    }
}

section! {
    /// The objective of `task: orpo`, under the names of TRL's ORPOConfig.
    pub struct Orpo {
        /// Weight of the odds ratio beside the loss of the chosen texts; λ in the paper.
        beta: f64 = 0.1, in above(0.0);
        /// Train without dropout.
        disable_dropout: bool = true;
    }
}

section! {
    /// The objective of `task: cpo`, under the names of TRL's CPOConfig.
    pub struct Cpo {
        /// Loss of a pair, based on how probable its completions are.
        loss_type: CpoLoss = CpoLoss::Sigmoid;
        /// Weight of the difference between the log-probabilities of a pair's completions; for `ipo`, the
        /// regularization strength τ.
        beta: f64 = 0.1, in above(0.0);
        /// Probability that the completions of a pair are swapped, for `sigmoid`, `simpo` and `alphapo`.
        label_smoothing: f64 = 0.0, in (Bound::Included(0.0), Bound::Excluded(0.5));
        /// Weight of the loss of the tokens of chosen completions. `alphapo` has no such part.
        cpo_alpha: f64 = 1.0, in 0.0..;
        /// Margin γ of `simpo` and `alphapo`, which rewards are to exceed.
        simpo_gamma: f64 = 0.5;
        /// Shape α of rewards, `(1 - p^-α) / α` of a completion of probability p (AlphaPO); log p by
        /// default.
        alpha: f64 = 0.0;
        /// Train without dropout.
        disable_dropout: bool = true;
    }
}

spelled! {
    /// The loss of a pair without a reference.
    pub enum CpoLoss {
        /// Contrastive preference optimization (Xu et al., 2024).
        Sigmoid = "sigmoid",
        /// Hinge loss, with a margin beyond which nothing is learned (Zhao et al., 2023).
        Hinge = "hinge",
        /// Distance from a margin, using means over tokens (Azar et al., 2023).
        Ipo = "ipo",
        /// Simple preference optimization, using means over tokens (Meng et al., 2024).
        Simpo = "simpo",
        /// As `simpo` with the rewards of `alpha`, without `cpo_alpha` (Gupta et al., 2025).
        Alphapo = "alphapo",
    }
}

section! {
    /// The objective of `task: kto`, under the names of TRL's KTOConfig.
    pub struct Kto {
        /// Loss of a completion, based on how much more probable it is than under the reference.
        loss_type: KtoLoss = KtoLoss::Kto;
        /// Weight of deviations from the reference.
        beta: f64 = 0.1, in above(0.0);
        /// Weight of the losses of desirable completions.
        desirable_weight: f64 = 1.0, in 0.0..;
        /// Weight of the losses of undesirable completions.
        undesirable_weight: f64 = 1.0, in 0.0..;
        /// Train without dropout, so that the model differs from its reference only by what it has
        /// learned.
        disable_dropout: bool = true;
        /// Hugging Face model folder or hub id of the reference, as `dpo.ref_model_name_or_path`.
        ref_model_name_or_path: Option<ModelSource> = None;
    }
}

spelled! {
    /// The loss of a completion that is desirable or not.
    pub enum KtoLoss {
        /// Kahneman–Tversky optimization (Ethayarajh et al., 2024). Rows with the completions of others
        /// estimate the divergence from the reference.
        Kto = "kto",
        /// Anchored preference optimization of single completions (D'Oosterlinck et al., 2024), without
        /// that estimate.
        ApoZeroUnpaired = "apo_zero_unpaired",
    }
}

impl Cpo {
    /// The weight of the loss of the tokens of chosen completions.
    pub fn token_loss_weight(&self) -> f64 {
        if self.loss_type == CpoLoss::Alphapo { 0.0 } else { self.cpo_alpha }
    }
}

impl CpoLoss {
    /// Whether it reads `label_smoothing`.
    pub(crate) fn smooths(self) -> bool {
        !matches!(self, Self::Hinge | Self::Ipo)
    }

    /// Whether it reads `simpo_gamma`.
    pub(crate) fn has_margin(self) -> bool {
        matches!(self, Self::Simpo | Self::Alphapo)
    }
}
