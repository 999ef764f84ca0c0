//! The files of a split.

use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Entry, Node, Value};
use crate::problems::Problems;
use crate::schema::data_set::DataSet;
use crate::values::data_paths::{read_list, read_pattern};
use crate::values::hub_name::DATA_SETS;

/// One path or several, in reading order. A path that holds `*`,
/// `?` or `[` is a glob. `s3://BUCKET/KEY` is an object, or a glob of some;
/// `hf://datasets/ORG/NAME` a data set of the hub, or with a path behind it files of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DataFiles {
    /// Paths, globs and URLs; paths are absolute in a resolved job file.
    pub patterns: Vec<PathBuf>,
    /// The sets that the patterns belong to, in their order; empty where the job file has nothing but
    /// paths.
    pub sets: Vec<DataSet>,
}

impl Serialize for DataFiles {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if self.sets.is_empty() {
            return self.patterns.serialize(serializer);
        }
        self.sets.serialize(serializer)
    }
}

impl DataFiles {
    /// The sets that have settings of their own, with their patterns.
    pub fn sets(&self) -> impl Iterator<Item = (&DataSet, &[PathBuf])> {
        let mut rest = self.patterns.as_slice();
        self.sets.iter().map(move |set| {
            let (own, behind) = rest.split_at(set.path.given.len().min(rest.len()));
            rest = behind;
            (set, own)
        })
    }

    /// Gives the sets their patterns, which have been resolved.
    pub(crate) fn share_patterns(&mut self) {
        let mut patterns = self.patterns.iter();
        for set in &mut self.sets {
            for path in &mut set.path.given {
                if let Some(pattern) = patterns.next() {
                    path.clone_from(pattern);
                }
            }
        }
    }

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

    /// Returns true for a glob that stands for the files that match it: a file or folder of that very name comes first.
    pub fn is_searched(pattern: &Path) -> bool {
        DataFiles::is_glob(pattern) && !pattern.exists()
    }
}

impl FieldType for DataFiles {
    fn type_name() -> String {
        "path, glob, or a list of them or of mappings".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let patterns = match &node.value {
            Value::Text(_) => vec![read_pattern(node, path, problems)?],
            Value::Map(_) => return read_sets(std::slice::from_ref(node), path, problems),
            Value::List(nodes) if nodes.iter().any(|node| matches!(node.value, Value::Map(_))) => {
                return read_sets(nodes, path, problems);
            }
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
        Some(Self { patterns, sets: Vec::new() })
    }
}

/// Reads sets with settings of their own; a path among them is a set without any.
fn read_sets(nodes: &[Node], path: &str, problems: &mut Problems) -> Option<DataFiles> {
    let mut sets = Vec::new();
    for (index, node) in nodes.iter().enumerate() {
        let path = format!("{path}[{index}]");
        let set = match &node.value {
            Value::Text(_) => {
                let entry = Entry { key: "path".to_owned(), key_at: node.at, node: node.clone() };
                let alone = Node { value: Value::Map(vec![entry]), at: node.at };
                DataSet::read(&alone, &path, problems)
            }
            _ => DataSet::read(node, &path, problems),
        };
        sets.push(set?);
    }
    let patterns = sets.iter().flat_map(|set| set.path.given.clone()).collect();
    Some(DataFiles { patterns, sets })
}
