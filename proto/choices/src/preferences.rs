//! The losses of preference pairs.

spelled! {
    /// The loss of a pair by the scores c and r of its chosen and its rejected completion, which are
    /// their log-ratios unless the divergence is another, and their margin m = c - r.
    pub enum DpoLoss {
        /// Direct preference optimization: -log σ(β m) (Rafailov et al., 2023).
        Sigmoid = "sigmoid",
        /// Hinge loss, with a margin beyond which nothing is learned: max(0, 1 - β m) (Zhao et al., 2023).
        Hinge = "hinge",
        /// Distance from a margin, using means over tokens: (m - 1 / 2β)² (Azar et al., 2023).
        Ipo = "ipo",
        /// Divergence of σ(β m) from labels smoothed by `label_smoothing` (Ji et al., 2024).
        ExoPair = "exo_pair",
        /// Noise-contrastive alignment: -log σ(β c) - ½ log σ(-β c) - ½ log σ(-β r) (Chen et al., 2024).
        NcaPair = "nca_pair",
        /// As `sigmoid`, for pairs that are swapped with the probability `label_smoothing` (Chowdhury et
        /// al., 2024).
        Robust = "robust",
        /// Binary classifier optimization: -log σ(β c) - log σ(-β r) (Jung et al., 2024).
        BcoPair = "bco_pair",
        /// Self-play preference optimization with certain preferences: (c - 1 / 2β)² + (r + 1 / 2β)² (Wu et
        /// al., 2024).
        SppoHard = "sppo_hard",
        /// Alignment by optimal transport: as `sigmoid`, between the margins of the model and of the
        /// reference of equal rank among the pairs (Melnyk et al., 2024).
        Aot = "aot",
        /// Alignment by optimal transport as in `aot`, between chosen and rejected completions of equal rank.
        AotUnpaired = "aot_unpaired",
        /// Anchored preference optimization, for completions better than the model's: 1 - σ(β c) + σ(β r)
        /// (D'Oosterlinck et al., 2024).
        ApoZero = "apo_zero",
        /// Anchored preference optimization, for completions worse than the model's: σ(β c) + 1 - σ(β m).
        ApoDown = "apo_down",
        /// A discovered mixture of logistic and exponential loss (Lu et al., 2024).
        Discopop = "discopop",
        /// Cross entropy of the chosen completions, in addition to another loss.
        Sft = "sft",
        /// As `sigmoid`, using means over tokens.
        SigmoidNorm = "sigmoid_norm",
    }
}

impl DpoLoss {
    /// Returns whether it reads `label_smoothing`.
    pub fn smooths(self) -> bool {
        matches!(self, Self::Robust | Self::ExoPair | Self::Aot | Self::AotUnpaired)
    }

    /// Returns whether it compares pairs with each other by their ranks.
    pub fn ranks(self) -> bool {
        matches!(self, Self::Aot | Self::AotUnpaired)
    }

    /// Returns whether it reads the difference of two completions alone, which all divergences define.
    pub fn takes_divergences(self) -> bool {
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
