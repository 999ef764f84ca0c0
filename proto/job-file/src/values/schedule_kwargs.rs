//! The options of a schedule: numbers, and for some schedules a few words.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;
use crate::values::Mapping;

/// `{num_cycles: 2}` or `{mode: max, patience: 3}`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ScheduleKwargs {
    options: Mapping<ScheduleOption>,
}

/// The value of an option.
#[derive(Debug, Clone, PartialEq)]
enum ScheduleOption {
    Number(f64),
    Word(String),
}

impl ScheduleKwargs {
    /// The options that are numbers, in the order of the job file.
    pub fn numbers(&self) -> impl Iterator<Item = (&str, f64)> {
        self.options.iter().filter_map(|(name, option)| match option {
            ScheduleOption::Number(number) => Some((name, *number)),
            ScheduleOption::Word(_) => None,
        })
    }

    /// The options that are words, in the order of the job file.
    pub fn words(&self) -> impl Iterator<Item = (&str, &str)> {
        self.options.iter().filter_map(|(name, option)| match option {
            ScheduleOption::Number(_) => None,
            ScheduleOption::Word(word) => Some((name, word.as_str())),
        })
    }

    /// The number of an option, if it is given.
    pub fn number(&self, wanted: &str) -> Option<f64> {
        self.numbers().find(|(name, _)| *name == wanted).map(|(_, number)| number)
    }

    /// The word of an option, if it is given.
    pub fn word(&self, wanted: &str) -> Option<&str> {
        self.words().find(|(name, _)| *name == wanted).map(|(_, word)| word)
    }
}

impl Serialize for ScheduleKwargs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.options.serialize(serializer)
    }
}

impl Serialize for ScheduleOption {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Number(number) => serializer.serialize_f64(*number),
            Self::Word(word) => serializer.serialize_str(word),
        }
    }
}

impl FieldType for ScheduleKwargs {
    fn type_name() -> String {
        "mapping to number or text".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        Mapping::read(node, path, problems).map(|options| Self { options })
    }
}

impl FieldType for ScheduleOption {
    fn type_name() -> String {
        "number or text".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Float(value) => Some(Self::Number(*value)),
            Value::Integer(value) => Some(Self::Number(*value as f64)),
            Value::Text(text) => Some(Self::Word(text.clone())),
            Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => {
                wrong_type(node, path, "a number", problems);
                None
            }
        }
    }
}
