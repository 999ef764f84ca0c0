//! The checkpoint that a job resumes from.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

const AUTO: &str = "auto";

/// The checkpoint to resume from, as in TrainingArguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ResumeFrom {
    /// `true`: the newest checkpoint of the job's folder of checkpoints.
    Newest,
    /// `auto`: the newest one if there is any.
    NewestIfAny,
    /// `false`: nowhere, as if the field were left out.
    Nowhere,
    /// A checkpoint's folder, absolute in a resolved job file, or its URL.
    Folder(PathBuf),
}

impl Serialize for ResumeFrom {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Newest => serializer.serialize_bool(true),
            Self::NewestIfAny => serializer.serialize_str(AUTO),
            Self::Nowhere => serializer.serialize_bool(false),
            Self::Folder(path) => path.serialize(serializer),
        }
    }
}

impl FieldType for ResumeFrom {
    fn type_name() -> String {
        "path, `auto`, or boolean".to_owned()
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        match &node.value {
            Value::Bool(true) => Some(Self::Newest),
            Value::Bool(false) => Some(Self::Nowhere),
            Value::Text(text) if text == AUTO => Some(Self::NewestIfAny),
            Value::Text(_) => PathBuf::read(node, path, problems).map(Self::Folder),
            _ => {
                wrong_type(node, path, "a path, auto, true or false", problems);
                None
            }
        }
    }
}
