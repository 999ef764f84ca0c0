//! Pairs of a key that the user chooses and a value of one type, in their order.

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::{Problems, join};

/// `{key: value, ...}`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping<T> {
    entries: Vec<(String, T)>,
}

impl<T> Mapping<T> {
    /// The pairs in the order of the job file.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.entries.iter().map(|(key, value)| (key.as_str(), value))
    }
}

impl<T> Default for Mapping<T> {
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<T: Serialize> Serialize for Mapping<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.entries.len()))?;
        for (key, value) in self.iter() {
            map.serialize_entry(key, value)?;
        }
        map.end()
    }
}

impl<T: FieldType> FieldType for Mapping<T> {
    fn type_name() -> String {
        format!("mapping to {}", T::type_name())
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let Value::Map(entries) = &node.value else {
            wrong_type(node, path, "a mapping", problems);
            return None;
        };
        let read: Vec<_> = entries
            .iter()
            .map(|entry| {
                let value = T::read(&entry.node, &join(path, &entry.key), problems)?;
                Some((entry.key.clone(), value))
            })
            .collect();
        Some(Self { entries: read.into_iter().collect::<Option<_>>()? })
    }
}

impl<T: FieldType> FieldType for Vec<T> {
    fn type_name() -> String {
        format!("list of {}s", T::type_name())
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let Value::List(nodes) = &node.value else {
            wrong_type(node, path, "a list", problems);
            return None;
        };
        let read: Vec<_> = nodes
            .iter()
            .enumerate()
            .map(|(index, node)| T::read(node, &format!("{path}[{index}]"), problems))
            .collect();
        read.into_iter().collect()
    }
}
