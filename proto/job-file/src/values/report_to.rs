//! The places besides the job's events that metrics are written to.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

const TENSORBOARD: &str = "tensorboard";
const NONE: &str = "none";

/// The value of `report_to`, which has one place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportTo {
    /// TensorBoard's event files.
    pub tensorboard: bool,
}

impl Default for ReportTo {
    fn default() -> Self {
        Self { tensorboard: true }
    }
}

impl Serialize for ReportTo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(if self.tensorboard { TENSORBOARD } else { NONE })
    }
}

impl FieldType for ReportTo {
    fn type_name() -> String {
        format!("`{TENSORBOARD}`, `{NONE}`")
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let names = match &node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut report = Self { tensorboard: false };
        for name in names {
            match &name.value {
                Value::Text(name) if name == NONE => {}
                Value::Text(name) if name == TENSORBOARD || name == "all" => {
                    report.tensorboard = true;
                }
                Value::Text(name) => {
                    problems.violation(path, unknown(name));
                    return None;
                }
                _ => {
                    wrong_type(name, path, &format!("{TENSORBOARD} or {NONE}"), problems);
                    return None;
                }
            }
        }
        Some(report)
    }
}

fn unknown(name: &str) -> String {
    format!(
        "must be {TENSORBOARD} or {NONE}, not `{name}`; metrics are also in the job's events and in \
         trainer_state.json"
    )
}
