//! `dpo`: the objective of preference pairs, under the names of TRL's DPOConfig.

use std::ops::Bound;

use traind_choices::DpoLoss;

use crate::section::{above, section};
use crate::spelled::spelled;
use crate::values::{ModelSource, OneOrMany};

section! {
    /// The objective of `task: dpo`, under the names of TRL's DPOConfig.
    pub struct Dpo {
        /// Loss of a pair, based on how much more probable its completions are than under the
        /// reference; or a list of losses, which are added up. `aot` and `aot_unpaired` compare the
        /// pairs that a core processes at once.
        loss_type: OneOrMany<DpoLoss> = OneOrMany::one(DpoLoss::Sigmoid);
        /// Weights of the losses of `loss_type`, in its order; 1 each by default.
        loss_weights: Option<Vec<f64>> = None;
        /// Weight of deviations from the reference; for `ipo`, the regularization strength τ.
        beta: f64 = 0.1, in above(0.0);
        /// Probability that the completions of a pair are swapped, for `robust`, `aot`, `aot_unpaired`
        /// and `exo_pair`, which needs one.
        label_smoothing: f64 = 0.0, in (Bound::Included(0.0), Bound::Excluded(0.5));
        /// Divergence by which the model is compared with the reference. Losses of single completions
        /// and of ranks know `reverse_kl` only.
        f_divergence_type: DpoDivergence = DpoDivergence::ReverseKl;
        /// Coefficient α of `alpha_divergence`.
        f_alpha_divergence_coef: f64 = 0.5;
        /// Temperature τ of `discopop`.
        discopop_tau: f64 = 0.05, in above(0.0);
        /// Weight of the tokens of a completion beyond the length of the other one (LD-DPO). All tokens
        /// count alike by default.
        ld_alpha: Option<f64> = None, in 0.0..=1.0;
        /// Weight each pair by how probable the model finds its completions (WPO).
        use_weighting: bool = false;
        /// Train without dropout, so that the model differs from its reference only by what it has
        /// learned.
        disable_dropout: bool = true;
        /// Hugging Face model folder or hub id of the reference, whose parameters must have the names
        /// and shapes of the model's; `model.config_overrides` apply to it too. By default, the
        /// reference is the model that training starts from.
        ref_model_name_or_path: Option<ModelSource> = None;
    }
}

spelled! {
    /// The divergence between the model and its reference (Wang et al., 2024).
    pub enum DpoDivergence {
        /// Kullback–Leibler divergence of the reference from the model.
        ReverseKl = "reverse_kl",
        /// Kullback–Leibler divergence of the model from the reference.
        ForwardKl = "forward_kl",
        /// Jensen–Shannon divergence.
        JsDivergence = "js_divergence",
        /// α-divergence.
        AlphaDivergence = "alpha_divergence",
    }
}

impl Dpo {
    /// The losses with their weights.
    pub fn weighted_losses(&self) -> Vec<(DpoLoss, f64)> {
        let weights = self.loss_weights.iter().flatten().copied();
        self.loss_type.iter().copied().zip(weights.chain(std::iter::repeat(1.0))).collect()
    }
}
