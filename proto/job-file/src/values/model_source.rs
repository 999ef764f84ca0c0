//! The source of a model.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::field_type::FieldType;
use crate::node::Node;
use crate::problems::Problems;

/// A Hugging Face model folder, or the id of a model on the hub. A folder begins with `/`, `./` or
/// `../`; an id that is also a folder becomes one when the job file is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ModelSource {
    /// A folder; absolute in a resolved job file.
    Folder(PathBuf),
    /// An id such as `bert-base-cased` or `google/bert_uncased_L-2_H-128_A-2`.
    Hub(String),
}

impl Serialize for ModelSource {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Folder(path) => path.serialize(serializer),
            Self::Hub(id) => id.serialize(serializer),
        }
    }
}

impl FieldType for ModelSource {
    fn type_name() -> String {
        "path or hub id".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let text = String::read(node, path, problems)?;
        // `paths` refuses `~`, which is not an id either.
        let is_folder = text.starts_with(['/', '.', '~']);
        Some(if is_folder { Self::Folder(text.into()) } else { Self::Hub(text) })
    }
}
