//! Text that may be empty.

use serde::{Deserialize, Serialize};

use crate::field_type::FieldType;
use crate::node::{Node, Value};
use crate::problems::Problems;

/// Text that stands before another one. An empty one, which scripts have as their default, adds nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Prefix(String);

impl Prefix {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FieldType for Prefix {
    fn type_name() -> String {
        String::type_name()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text.is_empty() => Some(Self::default()),
            _ => String::read(node, path, problems).map(Self),
        }
    }
}
