//! `dpo`: the objective of preference pairs, under the names of TRL's DPOConfig.

use std::ops::Bound;

use crate::section::{above, section};
use crate::spelled::spelled;
use crate::values::{ModelSource, OneOrMany};

section! {
    /// The objective of `task: dpo`, under the names of TRL's DPOConfig.
    pub struct Dpo {
        /// Loss of a pair, based on how much more probable its completions are than under the
        /// reference; or a list of losses, which are added up. `aot`, `aot_unpaired` and `sft` compare
        /// the pairs that a core processes at once.
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
    /// The loss of a pair.
    pub enum DpoLoss {
        /// Direct preference optimization (Rafailov et al., 2023).
        Sigmoid = "sigmoid",
        /// Hinge loss, with a margin beyond which nothing is learned (Zhao et al., 2023).
        Hinge = "hinge",
        /// Distance from a margin, using means over tokens (Azar et al., 2023).
        Ipo = "ipo",
        /// Divergence from smoothed labels (Ji et al., 2024).
        ExoPair = "exo_pair",
        /// Noise-contrastive alignment (Chen et al., 2024).
        NcaPair = "nca_pair",
        /// As `sigmoid`, for pairs of which some are swapped (Chowdhury et al., 2024).
        Robust = "robust",
        /// Binary classifier optimization (Jung et al., 2024).
        BcoPair = "bco_pair",
        /// Self-play preference optimization with certain preferences (Wu et al., 2024).
        SppoHard = "sppo_hard",
        /// Alignment by optimal transport of the margins of pairs (Melnyk et al., 2024).
        Aot = "aot",
        /// The same of chosen and rejected completions.
        AotUnpaired = "aot_unpaired",
        /// Anchored preference optimization, for completions better than the model's (D'Oosterlinck et
        /// al., 2024).
        ApoZero = "apo_zero",
        /// The same for completions that are worse.
        ApoDown = "apo_down",
        /// A discovered mixture of logistic and exponential loss (Lu et al., 2024).
        Discopop = "discopop",
        /// Cross entropy of the chosen completions, in addition to another loss.
        Sft = "sft",
        /// As `sigmoid`, using means over tokens.
        SigmoidNorm = "sigmoid_norm",
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

impl DpoLoss {
    /// Whether it reads `label_smoothing`.
    pub(crate) fn smooths(self) -> bool {
        matches!(self, Self::Robust | Self::ExoPair | Self::Aot | Self::AotUnpaired)
    }

    /// Whether it compares pairs with each other by their ranks.
    pub(crate) fn ranks(self) -> bool {
        matches!(self, Self::Aot | Self::AotUnpaired)
    }

    /// Whether it reads the difference of two completions alone, which all divergences define.
    pub(crate) fn takes_divergences(self) -> bool {
        matches!(
            self,
            Self::Sigmoid
                | Self::SigmoidNorm
                | Self::Hinge
                | Self::Ipo
                | Self::ExoPair
                | Self::Robust
                | Self::Discopop
                | Self::Sft
        )
    }
}
