//! The settings of an optimizer: numbers by name, as a mapping or in TrainingArguments' spelling.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Entry, Node, Value};
use crate::problems::Problems;
use crate::values::Mapping;

/// `{momentum: 0.9, nesterov: true}` or `momentum=0.9, nesterov=true`. Flags are 1 or 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptimArgs {
    args: Mapping<Number>,
}

/// A number or a flag.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Number(f64);

impl OptimArgs {
    /// The pairs in the order of the job file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, f64)> {
        self.args.iter().map(|(name, number)| (name, number.0))
    }
}

impl Serialize for OptimArgs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.args.serialize(serializer)
    }
}

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

impl FieldType for OptimArgs {
    fn type_name() -> String {
        "mapping to number".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let parsed = match &node.value {
            Value::Text(text) => Some(parse(text, node, path, problems)?),
            _ => None,
        };
        Mapping::read(parsed.as_ref().unwrap_or(node), path, problems).map(|args| Self { args })
    }
}

/// Reads `name=value, name=value` as the mapping that it stands for.
fn parse(text: &str, node: &Node, path: &str, problems: &mut Problems) -> Option<Node> {
    let mut entries = Vec::new();
    for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
        let Some((name, value)) = pair.split_once('=') else {
            problems.violation(path, format!("must be name=value, not `{}`", pair.trim()));
            return None;
        };
        let (key, value) = (name.trim().to_owned(), Value::Text(value.trim().to_owned()));
        entries.push(Entry { key, key_at: node.at, node: Node { value, at: node.at } });
    }
    Some(Node { value: Value::Map(entries), at: node.at })
}

impl FieldType for Number {
    fn type_name() -> String {
        "number".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let number = match &node.value {
            Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
            Value::Text(text) => match text.to_lowercase().as_str() {
                "true" | "yes" => Some(1.0),
                "false" | "no" => Some(0.0),
                text => text.parse().ok(),
            },
            Value::Float(value) => Some(*value),
            Value::Integer(value) => Some(*value as f64),
            Value::Null | Value::List(_) | Value::Map(_) => None,
        };
        if number.is_none() {
            wrong_type(node, path, "a number, true or false", problems);
        }
        number.map(Number)
    }
}
