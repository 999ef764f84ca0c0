//! TrainingArguments that are no keys of `train`: accepted with their defaults, else ignored
//! with a warning where the result is the same, or refused with an alternative.

mod deepspeed;
mod fsdp;
mod mappings;
mod nested;
mod table;

pub use fsdp::{Sharding, fsdp_of_words};
pub use mappings::MAPPINGS;
pub use nested::{Misspelling, misspelled_flag, misspellings};
pub(crate) use table::{ALL, OPTIMIZERS};

use crate::aliases;
use crate::node::{Entry, Node, Value};
use crate::problems::{FIELD_UNUSED, Problems, join};

/// A field of TrainingArguments, or of one of its earlier versions, that is no key of `train`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Argument {
    /// Name of the field.
    pub name: &'static str,
    /// Default of transformers, as YAML.
    pub default: &'static str,
    /// Treatment of other values.
    pub treatment: Treatment,
}

/// Treatment of an argument that differs from its default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Treatment {
    /// Ignored with a warning, for this reason.
    NoEffect(&'static str),
    /// Accepted without a word, since it holds in any case, for this reason.
    Always(&'static str),
    /// These values, and lists of them, describe what is done in any case. Others are refused, with
    /// what to use instead.
    Only(&'static [&'static str], &'static str),
    /// Refused, with what to use instead.
    Refused(&'static str),
}

impl Argument {
    /// Returns true if a value, given as YAML, is equivalent to leaving the argument out.
    pub fn is_default(&self, yaml: &str) -> bool {
        Node::parse(yaml).is_ok_and(|node| self.is_default_value(&node.value))
    }

    /// Nothing, null and an empty value stand for the default too, as in transformers. So does the
    /// mask that `to_json_string` writes for every token, given or not: `<HUB_TOKEN>`.
    fn is_default_value(&self, value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Text(text) if text.is_empty() => true,
            Value::Text(text) if self.name.ends_with("_token") => {
                *text == format!("<{}>", self.name.to_uppercase())
            }
            Value::List(nodes) if nodes.is_empty() => true,
            Value::Map(entries) if entries.is_empty() => true,
            value => scalar(value).is_some_and(|text| text == self.default),
        }
    }
}

/// All arguments.
pub fn training_arguments() -> impl Iterator<Item = &'static Argument> {
    ALL.iter().copied().flatten()
}

/// The argument of a name.
pub fn training_argument(name: &str) -> Option<&'static Argument> {
    training_arguments().find(|argument| argument.name == name)
}

/// Takes the table's arguments, and optimizers that traind lacks, out of `train`.
pub(crate) fn apply(root: &mut Node, problems: &mut Problems) {
    mappings::apply(root, problems);
    fsdp::apply(root, problems);
    deepspeed::apply(root, problems);
    let Some(entries) = aliases::section_of(root, "train") else {
        return;
    };
    entries.retain(|entry| match training_argument(&entry.key) {
        Some(argument) => {
            report(argument, entry, problems);
            false
        }
        None => !refuses_optimizer(entry, problems),
    });
}

fn report(argument: &Argument, entry: &Entry, problems: &mut Problems) {
    if argument.is_default_value(&entry.node.value) {
        return;
    }
    let path = join("train", argument.name);
    match argument.treatment {
        Treatment::NoEffect(reason) => {
            problems.warning(FIELD_UNUSED, &path, format!("has no effect: {reason}"));
        }
        Treatment::Always(_) => {}
        Treatment::Only(known, _) if is_among(&entry.node.value, known) => {}
        Treatment::Refused(advice) | Treatment::Only(_, advice) => {
            problems.violation(&path, format!("is not supported: {advice}"));
        }
    }
}

fn refuses_optimizer(entry: &Entry, problems: &mut Problems) -> bool {
    let (true, Value::Text(name)) = (entry.key == "optim", &entry.node.value) else {
        return false;
    };
    let known = OPTIMIZERS.iter().find(|(names, _)| names.contains(&name.as_str()));
    if let Some((_, advice)) = known {
        problems.violation("train.optim", format!("`{name}` is not supported: {advice}"));
    }
    known.is_some()
}

/// Whether a value is one of `known`, or a list of some.
fn is_among(value: &Value, known: &[&str]) -> bool {
    match value {
        Value::Text(text) => known.contains(&text.as_str()),
        Value::List(nodes) => nodes.iter().all(|node| is_among(&node.value, known)),
        _ => false,
    }
}

/// A number, truth value or text, as the table spells it.
fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::Bool(value) => Some(value.to_string()),
        Value::Integer(value) => Some(value.to_string()),
        Value::Float(value) => Some(value.to_string()),
        Value::Text(value) => Some(value.clone()),
        _ => None,
    }
}
