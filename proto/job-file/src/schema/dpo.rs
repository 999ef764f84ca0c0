//! `dpo`: the objective of preference pairs, under the names of TRL's DPOConfig.

use std::ops::Bound;

use crate::range::above;
use crate::section::section;
use crate::spelled::spelled;

section! {
    /// The objective of `task: dpo`, under the names of TRL's DPOConfig.
    pub struct Dpo {
        /// Loss of a pair, by how much more probable its completions are than to the reference.
        loss_type: DpoLoss = DpoLoss::Sigmoid;
        /// How much a difference from the reference counts; for `ipo` the strength of the
        /// regularization, τ.
        beta: f64 = 0.1, in above(0.0);
        /// Probability that a pair has its completions the wrong way round, for `robust`.
        label_smoothing: f64 = 0.0, in (Bound::Included(0.0), Bound::Excluded(0.5));
        /// Train without dropout, so that the model differs from its reference by what it has learned
        /// alone.
        disable_dropout: bool = true;
    }
}

spelled! {
    /// The loss of a pair.
    pub enum DpoLoss {
        /// That of direct preference optimization (Rafailov et al., 2023).
        Sigmoid = "sigmoid",
        /// A margin beyond which nothing is learned (Zhao et al., 2023).
        Hinge = "hinge",
        /// A distance from a margin, of means over tokens (Azar et al., 2023).
        Ipo = "ipo",
        /// That of `sigmoid` for pairs some of which are the wrong way round (Chowdhury et al., 2024).
        Robust = "robust",
    }
}
