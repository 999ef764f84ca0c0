//! The losses of `train.loss`.

use crate::range::Range;
use crate::setting::Setting;

/// The labels that a loss compares logits with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelsKind {
    /// One class for each row or token.
    Classes,
    /// A 0 or 1 for each class of a row.
    Flags,
    /// One or several numbers for each row.
    Numbers,
}

impl LabelsKind {
    /// The loss of labels whose job names none.
    pub const fn default_loss(self) -> Loss {
        match self {
            LabelsKind::Classes => Loss::CrossEntropy,
            LabelsKind::Flags => Loss::BinaryCrossEntropy,
            LabelsKind::Numbers => Loss::Mse,
        }
    }
}

/// Gives the list of losses to the macro `$then`: a name, the file of `traind-models` with the formula, the labels that
/// it is for, and its settings with their defaults and ranges.
#[macro_export]
macro_rules! losses {
    ($then:ident) => {
        $then! {
            /// Cross entropy of one class.
            CrossEntropy = "cross_entropy" in cross_entropy, for [Classes];
            /// Cross entropy that counts less where the model is right already.
            Focal = "focal" in focal, for [Classes, Flags], with [gamma = 2.0, at_least(0.0)];
            /// Cross entropy of each of several classes.
            BinaryCrossEntropy = "binary_cross_entropy" in binary_cross_entropy, for [Flags];
            /// Squared error.
            Mse = "mse" in mse, for [Numbers];
            /// Absolute error.
            L1 = "l1" in l1, for [Numbers];
            /// Squared error of small differences, absolute error of others.
            SmoothL1 = "smooth_l1" in smooth_l1, for [Numbers], with [beta = 1.0, above(0.0)];
        }
    };
}

macro_rules! declare {
    ($(
        $(#[doc = $doc:literal])+
        $loss:ident = $name:literal in $file:ident, for [$($labels:ident),+]
            $(, with [$($setting:ident = $default:literal, $range:ident($($bound:literal),+));+])?;
    )+) => {
        spelled! {
            /// A loss.
            pub enum Loss {
                $($(#[doc = $doc])+ $loss = $name,)+
            }
        }

        impl Loss {
            /// The labels that it is for.
            pub const fn labels(self) -> &'static [LabelsKind] {
                match self {
                    $(Self::$loss => &[$(LabelsKind::$labels),+],)+
                }
            }

            /// The settings that `loss_args` may have.
            pub const fn settings(self) -> &'static [Setting] {
                match self {
                    $(Self::$loss => const { &[$($(Setting {
                        name: stringify!($setting),
                        range: Range::$range($($bound),+),
                        default: $default,
                    }),+)?] },)+
                }
            }
        }
    };
}

losses!(declare);
