//! A quantity of a resource, as Kubernetes writes it: a number with an optional suffix.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

/// Suffixes of quantities.
const SUFFIXES: [&str; 14] =
    ["", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// `8`, `500m` or `512Gi`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quantity(String);

impl Quantity {
    /// The quantity as it is written.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Serialize for Quantity {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl FieldType for Quantity {
    fn type_name() -> String {
        "quantity".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = match &node.value {
            Value::Integer(number) => number.to_string(),
            Value::Float(number) => number.to_string(),
            Value::Text(text) => text.clone(),
            _ => {
                wrong_type(node, path, "a quantity", problems);
                return None;
            }
        };
        if !is_quantity(&text) {
            let description = format!("must be a number such as 8, 500m or 512Gi, not `{text}`");
            problems.violation(path, description);
            return None;
        }
        Some(Self(text))
    }
}

fn is_quantity(text: &str) -> bool {
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.');
    let (number, suffix) = text.split_at(end.unwrap_or(text.len()));
    number.parse::<f64>().is_ok() && SUFFIXES.contains(&suffix)
}
