//! The places besides the job's events that metrics are written to.

use serde::{Serialize, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

const TENSORBOARD: &str = "tensorboard";
const MLFLOW: &str = "mlflow";
const WANDB: &str = "wandb";
const ALL: &str = "all";
const NONE: &str = "none";

/// The value of `report_to`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReportTo {
    /// TensorBoard's event files.
    pub tensorboard: bool,
    /// MLflow's server or file store.
    pub mlflow: bool,
    /// W&B's offline runs.
    pub wandb: bool,
}

impl ReportTo {
    const NOWHERE: ReportTo = ReportTo { tensorboard: false, mlflow: false, wandb: false };
    const EVERYWHERE: ReportTo = ReportTo { tensorboard: true, mlflow: true, wandb: true };

    fn names(self) -> Vec<&'static str> {
        let all = [(self.tensorboard, TENSORBOARD), (self.mlflow, MLFLOW), (self.wandb, WANDB)];
        all.into_iter().filter_map(|(is_named, name)| is_named.then_some(name)).collect()
    }
}

impl Default for ReportTo {
    fn default() -> Self {
        Self { tensorboard: true, ..Self::NOWHERE }
    }
}

impl Serialize for ReportTo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.names().as_slice() {
            [] => serializer.serialize_str(NONE),
            [name] => serializer.serialize_str(name),
            names => names.serialize(serializer),
        }
    }
}

impl FieldType for ReportTo {
    fn type_name() -> String {
        format!("`{TENSORBOARD}`, `{MLFLOW}`, `{WANDB}`, a list of these, `{NONE}`")
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let names = match &node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut report = Self::NOWHERE;
        for name in names {
            match &name.value {
                Value::Text(name) if name == NONE => {}
                Value::Text(name) if name == TENSORBOARD => report.tensorboard = true,
                Value::Text(name) if name == MLFLOW => report.mlflow = true,
                Value::Text(name) if name == WANDB => report.wandb = true,
                Value::Text(name) if name == ALL => report = Self::EVERYWHERE,
                Value::Text(name) => {
                    problems.violation(path, unknown(name));
                    return None;
                }
                _ => {
                    let wanted = format!("{TENSORBOARD}, {MLFLOW}, {WANDB} or {NONE}");
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
        "must be {TENSORBOARD}, {MLFLOW}, {WANDB} or {NONE}, not `{name}`; metrics are also in the \
         job's events and in trainer_state.json"
    )
}
