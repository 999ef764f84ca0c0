//! Numbers of layers: one, or a list.

use serde::Serialize;

use crate::field_type::FieldType;
use crate::node::{Node, Value};
use crate::problems::Problems;

/// The numbers of some layers, counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct LayerNumbers(pub Vec<u32>);

impl FieldType for LayerNumbers {
    fn type_name() -> String {
        "integer or list of integers".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let nodes = match &node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        if nodes.is_empty() {
            problems.violation(path, "must name at least one layer");
            return None;
        }
        let numbers = nodes.iter().map(|node| u32::read(node, path, problems));
        numbers.collect::<Option<_>>().map(Self)
    }
}
