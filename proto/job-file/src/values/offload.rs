//! The values that a job keeps in host memory between the programs that need it.

use serde::Serialize;
use serde::ser::{SerializeSeq as _, Serializer};

use crate::field_type::{FieldType, wrong_type};
use crate::node::{Node, Value};
use crate::problems::Problems;

const ACTIVATIONS: &str = "activations";
const OPTIMIZER: &str = "optimizer";

/// The value of `parallel.offload`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offload {
    /// The values that stages keep of forward passes for backward passes.
    pub activations: bool,
    /// The optimizer's state.
    pub optimizer: bool,
}

impl Offload {
    fn names(self) -> impl Iterator<Item = &'static str> {
        let activations = self.activations.then_some(ACTIVATIONS);
        activations.into_iter().chain(self.optimizer.then_some(OPTIMIZER))
    }

    /// Whether anything is kept in host memory.
    pub fn is_any(self) -> bool {
        self != Offload::default()
    }
}

impl std::fmt::Display for Offload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.names().collect::<Vec<_>>().join(", "))
    }
}

impl Serialize for Offload {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = serializer.serialize_seq(None)?;
        self.names().try_for_each(|name| names.serialize_element(name))?;
        names.end()
    }
}

impl FieldType for Offload {
    fn type_name() -> String {
        format!("list of `{ACTIVATIONS}` and `{OPTIMIZER}`")
    }

    fn read(node: &Node, path: &str, problems: &mut Problems) -> Option<Self> {
        let names = match &node.value {
            Value::List(nodes) => nodes.as_slice(),
            _ => std::slice::from_ref(node),
        };
        let mut offload = Offload::default();
        for name in names {
            match &name.value {
                Value::Text(name) if name == ACTIVATIONS => offload.activations = true,
                Value::Text(name) if name == OPTIMIZER => offload.optimizer = true,
                Value::Text(name) => {
                    let description =
                        format!("must be {ACTIVATIONS}, {OPTIMIZER} or both, not `{name}`");
                    problems.violation(path, description);
                    return None;
                }
                _ => {
                    wrong_type(name, path, &format!("{ACTIVATIONS} or {OPTIMIZER}"), problems);
                    return None;
                }
            }
        }
        Some(offload)
    }
}
