//! A value, or a list of values.

use serde::{Serialize, Serializer};

use crate::field_type::FieldType;
use crate::node::{Node, Value};
use crate::problems::Problems;

/// A list of at least one value. A single one is written without a list.
#[derive(Debug, Clone, PartialEq)]
pub struct OneOrMany<T>(Vec<T>);

impl<T> OneOrMany<T> {
    pub(crate) fn one(value: T) -> OneOrMany<T> {
        OneOrMany(vec![value])
    }
}

impl<T> std::ops::Deref for OneOrMany<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<T: Serialize> Serialize for OneOrMany<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.as_slice() {
            [value] => value.serialize(serializer),
            values => values.serialize(serializer),
        }
    }
}

impl<T: FieldType> FieldType for OneOrMany<T> {
    fn type_name() -> String {
        format!("{}; or a list of these", T::type_name())
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::List(values) if values.is_empty() => {
                problems.violation(path, "must have at least one value");
                None
            }
            Value::List(_) => Vec::read(node, path, problems).map(OneOrMany),
            _ => T::read(node, path, problems).map(OneOrMany::one),
        }
    }
}
