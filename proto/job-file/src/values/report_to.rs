//! The places besides the job's events that metrics are written to.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

const TENSORBOARD: &str = "tensorboard";
const MLFLOW: &str = "mlflow";
const ALL: &str = "all";
const NONE: &str = "none";

/// The value of `report_to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportTo {
    /// TensorBoard's event files.
    pub tensorboard: bool,
    /// MLflow's file store.
    pub mlflow: bool,
}

impl Default for ReportTo {
    fn default() -> Self {
        Self { tensorboard: true, mlflow: false }
    }
}

impl Serialize for ReportTo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (self.tensorboard, self.mlflow) {
            (false, false) => serializer.serialize_str(NONE),
            (true, false) => serializer.serialize_str(TENSORBOARD),
            (false, true) => serializer.serialize_str(MLFLOW),
            (true, true) => [TENSORBOARD, MLFLOW].serialize(serializer),
        }
    }
}

impl FieldType for ReportTo {
    fn type_name() -> String {
        format!("`{TENSORBOARD}`, `{MLFLOW}`, a list of both, `{NONE}`")
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let names = match &node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut report = Self { tensorboard: false, mlflow: false };
        for name in names {
            match &name.value {
                Value::Text(name) if name == NONE => {}
                Value::Text(name) if name == TENSORBOARD => report.tensorboard = true,
                Value::Text(name) if name == MLFLOW => report.mlflow = true,
                Value::Text(name) if name == ALL => {
                    report = Self { tensorboard: true, mlflow: true };
                }
                Value::Text(name) => {
                    problems.violation(path, unknown(name));
                    return None;
                }
                _ => {
                    let wanted = format!("{TENSORBOARD}, {MLFLOW} or {NONE}");
                    wrong_type(name, path, &wanted, problems);
                    return None;
                }
            }
        }
        Some(report)
    }
}

fn unknown(name: &str) -> String {
    format!(
        "must be {TENSORBOARD}, {MLFLOW} or {NONE}, not `{name}`; metrics are also in the job's events \
         and in trainer_state.json"
    )
}
