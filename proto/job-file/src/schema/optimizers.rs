//! Optimizers, and the entries of `train.param_groups`.

use serde::Serialize;

use crate::field_type::FieldType;
use crate::node::Node;
use crate::problems::Problems;
use crate::range::{Range, above};
use crate::section::Fields;
use crate::spelled::spelled;
use crate::values::OptimArgs;

spelled! {
    /// An optimizer.
    pub enum Optim {
        /// AdamW, as in PyTorch.
        AdamwTorch = "adamw_torch" | "adamw_torch_fused" | "adamw_torch_xla" | "adamw_torch_npu_fused"
            | "adamw_apex_fused" | "adamw_hf" | "paged_adamw" | "paged_adamw_32bit",
        /// Stochastic gradient descent.
        Sgd = "sgd",
        /// Adafactor.
        Adafactor = "adafactor",
        /// Adagrad, as in PyTorch.
        Adagrad = "adagrad",
        /// Muon, as in PyTorch, for the matrices of hidden layers, and AdamW for all other parameters.
        Muon = "muon",
        /// Lion.
        Lion = "lion_32bit" | "lion" | "paged_lion_32bit",
        /// RMSprop, as in PyTorch.
        RmsProp = "rmsprop" | "rmsprop_bnb" | "rmsprop_bnb_32bit",
        /// Schedule-free AdamW, as in the package `schedulefree`.
        ScheduleFreeAdamW = "schedule_free_adamw",
    }
}

impl Optim {
    /// The settings that `optim_args` may have, with their ranges.
    pub(crate) fn args(self) -> Vec<(&'static str, Range)> {
        let flag = Range::new(0.0..=1.0);
        match self {
            Self::Sgd => vec![
                ("momentum", Range::new(0.0..)),
                ("dampening", Range::new(0.0..)),
                ("nesterov", flag),
            ],
            Self::RmsProp => vec![
                ("alpha", Range::new(0.0..1.0)),
                ("eps", Range::new(above(0.0))),
                ("momentum", Range::new(0.0..)),
                ("centered", flag),
            ],
            Self::Adagrad => {
                vec![("lr_decay", Range::new(0.0..)), ("eps", Range::new(above(0.0)))]
            }
            Self::ScheduleFreeAdamW => {
                vec![("weight_lr_power", Range::new(0.0..)), ("r", Range::new(0.0..))]
            }
            Self::Muon => vec![
                ("momentum", Range::new(0.0..)),
                ("nesterov", flag),
                ("ns_steps", Range::new(1.0..=99.0)),
                ("eps", Range::new(0.0..)),
            ],
            Self::AdamwTorch | Self::Adafactor | Self::Lion => Vec::new(),
        }
    }

    /// The settings that are words, with the words that they may be.
    pub(crate) fn arg_words(self) -> &'static [(&'static str, [&'static str; 2])] {
        match self {
            Self::Muon => &[("adjust_lr_fn", ["original", "match_rms_adamw"])],
            _ => &[],
        }
    }

    /// The settings that are lists of numbers, with their lengths.
    pub(crate) fn arg_lists(self) -> &'static [(&'static str, usize)] {
        match self {
            Self::Muon => &[("ns_coefficients", 3)],
            _ => &[],
        }
    }
}

/// Parameters with settings of their own, as PyTorch's parameter groups. What it leaves out is as in `train`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ParamGroup {
    /// The names of its parameters: a regular expression, or from a first `*` on a glob.
    #[serde(rename = "match")]
    pub pattern: String,
    /// Its peak learning rate.
    pub learning_rate: Option<f64>,
    /// The decay of all of its parameters.
    pub weight_decay: Option<f64>,
    /// Its optimizer.
    pub optim: Option<Optim>,
    /// The settings of that optimizer.
    pub optim_args: OptimArgs,
}

const KEYS: &[&str] = &["match", "learning_rate", "weight_decay", "optim", "optim_args"];

impl FieldType for ParamGroup {
    fn type_name() -> String {
        "mapping".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let fields = Fields::open(node, path, KEYS, problems)?;
        let not_negative = || Some(Range::new(0.0..));
        let pattern = fields.read("match", None, None, problems);
        let learning_rate = fields.read("learning_rate", Some(None), not_negative(), problems);
        let weight_decay = fields.read("weight_decay", Some(None), not_negative(), problems);
        let optim = fields.read("optim", Some(None), None, problems);
        let optim_args = fields.read("optim_args", Some(OptimArgs::default()), None, problems);
        Some(Self {
            pattern: pattern?,
            learning_rate: learning_rate?,
            weight_decay: weight_decay?,
            optim: optim?,
            optim_args: optim_args?,
        })
    }
}
