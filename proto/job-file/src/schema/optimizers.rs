//! The entries of `train.param_groups`.

use serde::Serialize;
use traind_choices::{Optim, Range};

use crate::field_type::FieldType;
use crate::node::Node;
use crate::problems::Problems;
use crate::section::Fields;
use crate::values::OptimArgs;

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
