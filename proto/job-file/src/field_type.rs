//! The types that a field of the job file can have, and how each is read.

use std::path::PathBuf;

use crate::field_doc::FieldDoc;
use crate::node::{Node, Value};
use crate::problems::{Problems, join};

/// A type that a field can have.
pub(crate) trait FieldType: Sized {
    /// Sections have fields of their own and may be left out.
    const IS_SECTION: bool = false;

    /// The type as the documentation names it.
    fn type_name() -> String;

    /// The documentation of the values, which follows that of each field of the type.
    fn values_doc() -> Option<String> {
        None
    }

    /// Reads a value, or reports why it cannot be read.
    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self>;

    /// The number that a range applies to.
    fn number(&self) -> Option<f64> {
        None
    }

    /// The fields of a section.
    fn fields(_path: &str) -> Vec<FieldDoc> {
        Vec::new()
    }

    /// Removes the keys of a section that have their defaults from `json`, which is this value serialized.
    fn remove_defaults(&self, _json: &mut serde_json::Value) {}
}

/// Reports a value of the wrong type.
pub(crate) fn wrong_type(node: &Node, path: &str, wanted: &str, problems: &mut Problems) {
    let found = node.value.describe();
    problems.violation(path, format!("must be {wanted}, not {found}"));
}

impl FieldType for bool {
    fn type_name() -> String {
        "boolean".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        if let Value::Bool(value) = node.value {
            return Some(value);
        }
        wrong_type(node, path, "true or false", problems);
        None
    }
}

impl FieldType for f64 {
    fn type_name() -> String {
        "number".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match node.value {
            Value::Float(value) => Some(value),
            Value::Integer(value) => Some(value as f64),
            _ => {
                wrong_type(node, path, "a number", problems);
                None
            }
        }
    }

    fn number(&self) -> Option<f64> {
        Some(*self)
    }
}

macro_rules! integer_field {
    ($($type:ty),+) => {$(
        impl FieldType for $type {
            fn type_name() -> String {
                "integer".to_owned()
            }

            fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
                let Value::Integer(value) = node.value else {
                    wrong_type(node, path, "an integer", problems);
                    return None;
                };
                let read = <$type>::try_from(value).ok();
                if read.is_none() {
                    let (min, max) = (<$type>::MIN, <$type>::MAX);
                    problems.violation(path, format!("must be from {min} to {max}, not {value}"));
                }
                read
            }

            fn number(&self) -> Option<f64> {
                Some(*self as f64)
            }
        }
    )+};
}

integer_field!(u32, u64, i64);

impl FieldType for String {
    fn type_name() -> String {
        "text".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text.is_empty() => {
                problems.violation(path, "must not be empty");
                None
            }
            Value::Text(text) => Some(text.clone()),
            Value::Bool(_) | Value::Integer(_) | Value::Float(_) => {
                let found = node.value.describe();
                problems.violation(path, format!("must be text, not {found}; put it in quotes"));
                None
            }
            _ => {
                wrong_type(node, path, "text", problems);
                None
            }
        }
    }
}

impl FieldType for PathBuf {
    fn type_name() -> String {
        "path".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        String::read(node, path, problems).map(PathBuf::from)
    }
}

impl<T: FieldType> FieldType for Option<T> {
    fn type_name() -> String {
        T::type_name()
    }

    fn values_doc() -> Option<String> {
        T::values_doc()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match node.value {
            Value::Null => Some(None),
            _ => T::read(node, path, problems).map(Some),
        }
    }

    fn number(&self) -> Option<f64> {
        self.as_ref().and_then(T::number)
    }
}

/// A mapping that is handed on as it is.
impl FieldType for serde_json::Map<String, serde_json::Value> {
    fn type_name() -> String {
        "mapping".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            wrong_type(node, path, "a mapping", problems);
            return None;
        };
        if let Some(entry) = entries.iter().find(|entry| entry.key.is_empty()) {
            problems.violation(&join(path, &entry.key), "has an empty key");
            return None;
        }
        let pairs = entries.iter();
        Some(pairs.map(|entry| (entry.key.clone(), entry.node.to_json())).collect())
    }
}
