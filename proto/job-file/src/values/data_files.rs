//! The files of a split.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;
use crate::values::hub_name::{DATA_SETS, DataSetUrl};

/// One path or several, in reading order. A path that holds `*`,
/// `?` or `[` is a glob. `s3://BUCKET/KEY` is an object, or a glob of some;
/// `hf://datasets/ORG/NAME` a data set of the hub, or with a path behind it files of one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct DataFiles {
    /// Paths, globs and URLs; paths are absolute in a resolved job file.
    pub patterns: Vec<PathBuf>,
}

impl DataFiles {
    /// Returns true for a URL, which names no file of this host.
    pub fn is_url(pattern: &Path) -> bool {
        pattern.to_string_lossy().contains("://")
    }

    /// Returns true if a pattern names objects of a bucket: `s3://BUCKET/KEY`.
    pub fn is_object(pattern: &Path) -> bool {
        pattern.as_os_str().as_encoded_bytes().starts_with(b"s3://")
    }

    /// Returns true if a pattern names a data set of the hub.
    pub fn is_data_set(pattern: &Path) -> bool {
        pattern.as_os_str().as_encoded_bytes().starts_with(DATA_SETS.as_bytes())
    }

    /// Returns true for a glob; other patterns name one file each.
    pub fn is_glob(pattern: &Path) -> bool {
        pattern.as_os_str().as_encoded_bytes().iter().any(|byte| b"*?[".contains(byte))
    }
}

impl FieldType for DataFiles {
    fn type_name() -> String {
        "path, glob, or a list of them".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let patterns = match &node.value {
            Value::Text(_) => vec![read_pattern(node, path, problems)?],
            Value::List(nodes) if !nodes.is_empty() => read_list(nodes, path, problems)?,
            Value::List(_) => {
                problems.violation(path, "must name at least one file");
                return None;
            }
            _ => {
                wrong_type(node, path, "a path or a list of paths", problems);
                return None;
            }
        };
        Some(Self { patterns })
    }
}

/// Reads all elements, so that every invalid one is reported.
fn read_list(nodes: &[Node], path: &str, problems: &mut Problems) -> Option<Vec<PathBuf>> {
    let read: Vec<_> = nodes
        .iter()
        .enumerate()
        .map(|(index, node)| read_pattern(node, &format!("{path}[{index}]"), problems))
        .collect();
    read.into_iter().collect()
}

fn read_pattern(node: &Node, path: &str, problems: &mut Problems) -> Option<PathBuf> {
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
    Some(text.into())
}
