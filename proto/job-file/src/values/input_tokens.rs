//! The tokens that a run counts.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

/// The value of `include_num_input_tokens_seen`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InputTokens {
    /// None.
    #[default]
    No,
    /// All, padding included.
    All,
    /// The tokens that are no padding.
    NonPadding,
}

impl InputTokens {
    const fn as_str(self) -> &'static str {
        match self {
            Self::No => "no",
            Self::All => "all",
            Self::NonPadding => "non_padding",
        }
    }
}

impl Serialize for InputTokens {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl FieldType for InputTokens {
    fn type_name() -> String {
        "`no`, `all`, `non_padding`, or boolean".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let wanted = "one of no, all, non_padding";
        match &node.value {
            Value::Bool(true) => Some(Self::All),
            Value::Bool(false) => Some(Self::No),
            Value::Text(text) => {
                let known = [Self::No, Self::All, Self::NonPadding];
                let found = known.into_iter().find(|it| it.as_str() == text);
                if found.is_none() {
                    problems.violation(path, format!("must be {wanted}, not `{text}`"));
                }
                found
            }
            _ => {
                wrong_type(node, path, wanted, problems);
                None
            }
        }
    }
}
