//! The learning-rate schedules of `train.lr_scheduler_type`.

use crate::range::Range;
use crate::setting::Setting;

spelled! {
    /// The learning-rate schedule after warmup.
    pub enum LrSchedulerType {
        /// Linear decay to 0.
        Linear = "linear",
        /// Half a cosine, down to 0.
        Cosine = "cosine",
        /// As `cosine`, down to a minimum rate.
        CosineWithMinLr = "cosine_with_min_lr",
        /// As `cosine_with_min_lr`, a step ahead, from a share of the rate on.
        CosineWarmupWithMinLr = "cosine_warmup_with_min_lr",
        /// As `cosine`, repeated.
        CosineWithRestarts = "cosine_with_restarts",
        /// Polynomial decay.
        Polynomial = "polynomial",
        /// Constant, without warmup.
        Constant = "constant",
        /// Constant after warmup.
        ConstantWithWarmup = "constant_with_warmup",
        /// Decay with the inverse square root of the step.
        InverseSqrt = "inverse_sqrt",
        /// Constant after warmup, then decay over the last steps.
        WarmupStableDecay = "warmup_stable_decay",
        /// Lowered whenever evaluations have stopped improving, as in PyTorch.
        ReduceLrOnPlateau = "reduce_lr_on_plateau",
    }
}

const fn setting(name: &'static str, default: f64, range: Range) -> Setting {
    Setting { name, range, default }
}

const COSINE: &[Setting] = &[setting("num_cycles", 0.5, Range::above(0.0))];
const RESTARTS: &[Setting] = &[setting("num_cycles", 1.0, Range::above(0.0))];
const MIN_LR: &[Setting] = &[
    setting("num_cycles", 0.5, Range::above(0.0)),
    setting("min_lr", 0.0, Range::above(0.0)),
    setting("min_lr_rate", 0.0, Range::from_below(0.0, 1.0)),
];
/// A first share of 0 stands for that of one step of warmup.
const WARMUP_MIN_LR: &[Setting] = &[
    setting("num_cycles", 0.5, Range::above(0.0)),
    setting("min_lr", 0.0, Range::above(0.0)),
    setting("min_lr_rate", 0.0, Range::from_below(0.0, 1.0)),
    setting("warmup_lr_rate", 0.0, Range::above(0.0)),
];
/// -1 stable steps stand for all that neither warmup nor decay has.
const STABLE: &[Setting] = &[
    setting("num_decay_steps", 0.0, Range::at_least(1.0)),
    setting("min_lr_ratio", 0.0, Range::from_below(0.0, 1.0)),
    setting("num_cycles", 0.5, Range::above(0.0)),
    setting("num_stable_steps", -1.0, Range::at_least(0.0)),
];
const POLYNOMIAL: &[Setting] =
    &[setting("lr_end", 1e-7, Range::at_least(0.0)), setting("power", 1.0, Range::above(0.0))];
/// 0 stands for the steps of warmup.
const INVERSE_SQRT: &[Setting] = &[setting("timescale", 0.0, Range::above(0.0))];
const PLATEAU: &[Setting] = &[
    setting("factor", 0.1, Range::from_below(0.0, 1.0)),
    setting("patience", 10.0, Range::at_least(0.0)),
    setting("threshold", 1e-4, Range::at_least(0.0)),
    setting("cooldown", 0.0, Range::at_least(0.0)),
    setting("min_lr", 0.0, Range::at_least(0.0)),
    setting("eps", 1e-8, Range::at_least(0.0)),
];

impl LrSchedulerType {
    /// The options that are numbers, under transformers' names.
    pub const fn settings(self) -> &'static [Setting] {
        match self {
            Self::Cosine => COSINE,
            Self::CosineWithRestarts => RESTARTS,
            Self::CosineWithMinLr => MIN_LR,
            Self::CosineWarmupWithMinLr => WARMUP_MIN_LR,
            Self::WarmupStableDecay => STABLE,
            Self::Polynomial => POLYNOMIAL,
            Self::InverseSqrt => INVERSE_SQRT,
            Self::ReduceLrOnPlateau => PLATEAU,
            Self::Linear | Self::Constant | Self::ConstantWithWarmup => &[],
        }
    }

    /// The options that are words, with the words that they may be, of which the first is the default.
    pub const fn words(self) -> &'static [(&'static str, &'static [&'static str])] {
        match self {
            Self::WarmupStableDecay => &[
                ("warmup_type", &["linear", "cosine", "1-sqrt"]),
                ("decay_type", &["cosine", "linear", "1-sqrt"]),
            ],
            Self::ReduceLrOnPlateau => {
                &[("mode", &["min", "max"]), ("threshold_mode", &["rel", "abs"])]
            }
            _ => &[],
        }
    }

    /// Returns whether rates depend on evaluations.
    pub const fn follows_evaluations(self) -> bool {
        matches!(self, Self::ReduceLrOnPlateau)
    }
}
