//! The classes of the labels in the data.

use std::fmt;

use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Entry, Node, Value};
use crate::problems::{Problems, join};

/// Labels as the data spells them, each with the name of its class, in the order of the job
/// file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LabelMap {
    entries: Vec<(String, String)>,
}

impl LabelMap {
    /// The labels with the names of their classes.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let entries = self.entries.iter();
        entries.map(|(label, class)| (label.as_str(), class.as_str()))
    }

    /// The names of the classes by class index: by number where the names are
    /// the numbers from 0 on, otherwise in the order they first appear in.
    pub fn classes(&self) -> Vec<&str> {
        let mut classes: Vec<&str> = Vec::new();
        for (_, class) in self.iter() {
            if !classes.contains(&class) {
                classes.push(class);
            }
        }
        let mut indices: Vec<_> = classes.iter().filter_map(|class| index(class)).collect();
        indices.sort_unstable();
        if indices.iter().copied().eq(0..classes.len()) {
            classes.sort_by_key(|class| index(class));
        }
        classes
    }
}

/// The number that a name spells in the usual notation.
fn index(class: &str) -> Option<usize> {
    let index: usize = class.parse().ok()?;
    (index.to_string() == class).then_some(index)
}

impl Serialize for LabelMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.entries.len()))?;
        for (label, class) in &self.entries {
            map.serialize_entry(label, class)?;
        }
        map.end()
    }
}

impl FieldType for LabelMap {
    fn type_name() -> String {
        "mapping of labels to class names, or a list of class names".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let entries = match &node.value {
            Value::Map(entries) => read_map(entries, path, problems)?,
            Value::List(nodes) => read_list(nodes, path, problems)?,
            _ => {
                wrong_type(node, path, "a mapping of labels to class names", problems);
                return None;
            }
        };
        if entries.is_empty() {
            problems.violation(path, "must map at least one label");
            return None;
        }
        Some(Self { entries })
    }
}

fn read_map(
    entries: &[Entry],
    path: &str,
    problems: &mut Problems,
) -> Option<Vec<(String, String)>> {
    let read: Vec<_> = entries
        .iter()
        .map(|entry| {
            let class = read_name(&entry.node, &join(path, &entry.key), problems)?;
            Some((entry.key.clone(), class))
        })
        .collect();
    read.into_iter().collect()
}

/// A list stands for labels that are their classes' names.
fn read_list(nodes: &[Node], path: &str, problems: &mut Problems) -> Option<Vec<(String, String)>> {
    let mut entries: Vec<(String, String)> = Vec::new();
    let mut whole = true;
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let Some(name) = read_name(node, &path, problems) else {
            whole = false;
            continue;
        };
        if entries.iter().any(|(known, _)| *known == name) {
            problems.violation(&path, format!("`{name}` is given twice"));
        }
        entries.push((name.clone(), name));
    }
    whole.then_some(entries)
}

/// A label as files have it, which may look like a number or a boolean without being quoted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LabelName(String);

impl fmt::Display for LabelName {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl FieldType for LabelName {
    fn type_name() -> String {
        "label".to_owned()
    }

    /// An empty text is the label of a row that has none.
    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Text(text) if text.is_empty() => Some(Self(String::new())),
            _ => read_name(node, path, problems).map(Self),
        }
    }
}

/// Class names may look like numbers and booleans without being quoted.
fn read_name(node: &Node, path: &str, problems: &mut Problems) -> Option<String> {
    match node.value {
        Value::Bool(_) | Value::Integer(_) => Some(node.value.describe()),
        _ => String::read(node, path, problems),
    }
}
