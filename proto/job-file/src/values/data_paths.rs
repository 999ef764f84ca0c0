//! The paths of a set.

use std::path::PathBuf;

use serde::Serialize;

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;
use crate::values::hub_name::{DATA_SETS, DataSetUrl};

/// Paths, globs and URLs of one set; resolved with those of [`DataFiles`](crate::DataFiles).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Paths {
    pub given: Vec<PathBuf>,
}

impl FieldType for Paths {
    fn type_name() -> String {
        "path, glob, or a list of them".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let given = match &node.value {
            Value::Text(_) => vec![read_pattern(node, path, problems)?],
            Value::List(nodes) if !nodes.is_empty() => read_list(nodes, path, problems)?,
            _ => {
                wrong_type(node, path, "a path or a list of paths", problems);
                return None;
            }
        };
        Some(Self { given })
    }
}

/// Reads all elements, so that every invalid one is reported.
pub(crate) fn read_list(
    nodes: &[Node],
    path: &str,
    problems: &mut Problems,
) -> Option<Vec<PathBuf>> {
    let read: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| read_pattern(node, &format!("{path}[{index}]"), problems))
        .collect();
    read.into_iter().collect()
}

pub(crate) fn read_pattern(node: &Node, path: &str, problems: &mut Problems) -> Option<PathBuf> {
    let text = String::read(node, path, problems)?;
    if let Err(error) = glob::Pattern::new(&text) {
        problems.violation(path, format!("is not a glob: {}", error.msg));
        return None;
    }
    if text.starts_with(DATA_SETS) && DataSetUrl::parse(&text).is_none() {
        let description = format!("`{text}` is not {DATA_SETS}ORG/NAME[@REVISION][/FILE]");
        problems.violation(path, description);
        return None;
    }
    // `file:///data/a.csv` is a file of this host.
    let local = text.strip_prefix("file://").filter(|path| path.starts_with('/'));
    Some(local.unwrap_or(&text).into())
}
