//! The settings of an optimizer: numbers by name, as a mapping or in TrainingArguments' spelling.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Entry, Node, Value};
use crate::problems::Problems;
use crate::values::Mapping;

/// `{momentum: 0.9, nesterov: true}` or `momentum=0.9, nesterov=true`. Flags are 1 or 0.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OptimArgs {
    args: Mapping<OptimArg>,
}

/// The value of a setting.
#[derive(Debug, Clone, PartialEq)]
pub enum OptimArg {
    /// A number or a flag.
    Number(f64),
    /// Numbers that belong together, in a mapping only.
    Numbers(Vec<f64>),
    /// One of several words.
    Word(String),
}

impl OptimArgs {
    /// The pairs in the order of the job file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &OptimArg)> {
        self.args.iter()
    }

    /// The pairs that are numbers.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = (&str, f64)> {
        self.iter().filter_map(|(name, arg)| match arg {
            OptimArg::Number(number) => Some((name, *number)),
            OptimArg::Numbers(_) | OptimArg::Word(_) => None,
        })
    }
}

impl Serialize for OptimArgs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.args.serialize(serializer)
    }
}

impl Serialize for OptimArg {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Numbers(numbers) => numbers.serialize(serializer),
            Self::Word(word) => serializer.serialize_str(word),
        }
    }
}

impl FieldType for OptimArgs {
    fn type_name() -> String {
        "mapping to number, list of numbers or text".to_owned()
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

impl FieldType for OptimArg {
    fn type_name() -> String {
        "number".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let number = match &node.value {
            Value::Bool(flag) => f64::from(u8::from(*flag)),
            Value::Text(text) => match text.to_lowercase().as_str() {
                "true" | "yes" => 1.0,
                "false" | "no" => 0.0,
                lower => match lower.parse() {
                    Ok(number) => number,
                    Err(_) => return Some(Self::Word(text.clone())),
                },
            },
            Value::Float(value) => *value,
            Value::Integer(value) => *value as f64,
            Value::List(_) => return Vec::read(node, path, problems).map(Self::Numbers),
            Value::Null | Value::Map(_) => {
                wrong_type(node, path, "a number, true or false", problems);
                return None;
            }
        };
        Some(Self::Number(number))
    }
}
