//! `dpo`: the objective of preference pairs, under the names of TRL's DPOConfig.

use std::ops::Bound;

use crate::range::above;
use crate::section::section;
use crate::spelled::spelled;
use crate::values::ModelSource;

section! {
    /// The objective of `task: dpo`, under the names of TRL's DPOConfig.
    pub struct Dpo {
        /// Loss of a pair, based on how much more probable its completions are than under the
        /// reference.
        loss_type: DpoLoss = DpoLoss::Sigmoid;
        /// Weight of deviations from the reference; for `ipo`, the regularization strength τ.
        beta: f64 = 0.1, in above(0.0);
        /// Probability that the completions of a pair are swapped, for `robust`.
        label_smoothing: f64 = 0.0, in (Bound::Included(0.0), Bound::Excluded(0.5));
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
        /// As `sigmoid`, for pairs of which some are swapped (Chowdhury et al., 2024).
        Robust = "robust",
    }
}
