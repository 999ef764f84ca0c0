//! The optimizers of `train.optim`.

use crate::range::Range;
use crate::setting::Named;

/// Gives the list of optimizers to the macro `$then`: a name with its alternatives, and the file of `traind-models`.
/// An optimizer has settings of its own that are numbers, with their ranges; words, with those that they may be; and
/// lists, with their lengths.
#[macro_export]
macro_rules! optimizers {
    ($then:ident) => {
        $then! {
            /// AdamW, as in PyTorch.
            AdamwTorch = ["adamw_torch" | "adamw_torch_fused" | "adamw_torch_xla" | "adamw_torch_npu_fused"
                | "adamw_apex_fused" | "adamw_hf" | "paged_adamw" | "paged_adamw_32bit"] in adamw;
            /// Stochastic gradient descent.
            Sgd = ["sgd"] in sgd,
                numbers [momentum: at_least(0.0), dampening: at_least(0.0), nesterov: from_to(0.0, 1.0)];
            /// Adafactor.
            Adafactor = ["adafactor"] in adafactor;
            /// Adagrad, as in PyTorch.
            Adagrad = ["adagrad"] in adagrad, numbers [lr_decay: at_least(0.0), eps: above(0.0)];
            /// Muon, as in PyTorch, for the matrices of hidden layers, and AdamW for all other parameters.
            Muon = ["muon"] in muon,
                numbers [momentum: at_least(0.0), nesterov: from_to(0.0, 1.0), ns_steps: from_to(1.0, 99.0),
                    eps: at_least(0.0)]
                words [adjust_lr_fn: "original", "match_rms_adamw"]
                lists [ns_coefficients: 3];
            /// Lion.
            Lion = ["lion_32bit" | "lion" | "paged_lion_32bit"] in lion;
            /// RMSprop, as in PyTorch.
            RmsProp = ["rmsprop" | "rmsprop_bnb" | "rmsprop_bnb_32bit"] in rmsprop,
                numbers [alpha: from_below(0.0, 1.0), eps: above(0.0), momentum: at_least(0.0),
                    centered: from_to(0.0, 1.0)];
            /// Schedule-free AdamW, as in the package `schedulefree`.
            ScheduleFreeAdamW = ["schedule_free_adamw"] in schedule_free_adamw,
                numbers [weight_lr_power: at_least(0.0), r: at_least(0.0)];
        }
    };
}

macro_rules! declare {
    ($(
        $(#[doc = $doc:literal])+
        $optim:ident = [$name:literal $(| $alias:literal)*] in $file:ident $(,
            $(numbers [$($number:ident: $range:ident($($bound:literal),+)),+])?
            $(words [$($word:ident: $first:literal, $second:literal),+])?
            $(lists [$($list:ident: $length:literal),+])?)?;
    )+) => {
        spelled! {
            /// An optimizer.
            pub enum Optim {
                $($(#[doc = $doc])+ $optim = $name $(| $alias)*,)+
            }
        }

        impl Optim {
            /// The settings that are numbers, with their ranges.
            pub const fn args(self) -> &'static [Named] {
                match self {
                    $(Self::$optim => const { &[$($($(
                        (stringify!($number), Range::$range($($bound),+))
                    ),+)?)?] },)+
                }
            }

            /// The settings that are words, with the words that they may be.
            pub const fn arg_words(self) -> &'static [(&'static str, [&'static str; 2])] {
                match self {
                    $(Self::$optim => &[$($($((stringify!($word), [$first, $second])),+)?)?],)+
                }
            }

            /// The settings that are lists of numbers, with their lengths.
            pub const fn arg_lists(self) -> &'static [(&'static str, usize)] {
                match self {
                    $(Self::$optim => &[$($($((stringify!($list), $length)),+)?)?],)+
                }
            }
        }
    };
}

optimizers!(declare);
