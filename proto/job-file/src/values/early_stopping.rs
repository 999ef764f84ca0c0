//! The end of a beam search: true, false or `never`.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

const NEVER: &str = "never";

/// The value of `early_stopping`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EarlyStopping {
    /// `true` or `false`.
    Flag(bool),
    /// Only when no better text is possible.
    Never,
}

impl Serialize for EarlyStopping {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Flag(flag) => serializer.serialize_bool(*flag),
            Self::Never => serializer.serialize_str(NEVER),
        }
    }
}

impl FieldType for EarlyStopping {
    fn type_name() -> String {
        format!("boolean, `{NEVER}`")
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Bool(flag) => Some(Self::Flag(*flag)),
            Value::Text(text) if text == NEVER => Some(Self::Never),
            _ => {
                wrong_type(node, path, &format!("true, false or `{NEVER}`"), problems);
                None
            }
        }
    }
}
