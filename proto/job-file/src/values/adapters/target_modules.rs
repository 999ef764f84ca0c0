//! The layers that adapters stand beside: their names, or all of a kind.

use serde::{Serialize, Serializer};

use crate::field_type::FieldType;
use crate::node::{Node, Value};
use crate::problems::Problems;

const ALL_LINEAR: &str = "all-linear";

/// The value of `target_modules`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TargetModules {
    /// Names, or the last parts of names.
    Named(Vec<String>),
    /// Every linear layer but the last.
    AllLinear,
}

impl Serialize for TargetModules {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Named(names) => names.serialize(serializer),
            Self::AllLinear => serializer.serialize_str(ALL_LINEAR),
        }
    }
}

impl FieldType for TargetModules {
    fn type_name() -> String {
        format!("list of texts, `{ALL_LINEAR}`")
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text == ALL_LINEAR => Some(Self::AllLinear),
            Value::Text(text) => {
                let wanted = format!("a list of names or `{ALL_LINEAR}`");
                problems.violation(path, format!("must be {wanted}, not `{text}`"));
                None
            }
            Value::List(names) if names.is_empty() => {
                problems.violation(path, "must name at least one module");
                None
            }
            _ => Vec::read(node, path, problems).map(Self::Named),
        }
    }
}
