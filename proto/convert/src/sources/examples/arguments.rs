//! Model and data arguments of transformers' example scripts.

use std::sync::LazyLock;

use serde_json::{Map, Value};

use super::Script;
use crate::rule::Table;
use crate::shared::{Keys, TABLES};
use crate::values::{is_off, shown};

pub(crate) static MODEL: Keys = LazyLock::new(|| TABLES.arguments.model.keys());
pub(crate) static DATA: Keys = LazyLock::new(|| TABLES.arguments.data.keys());
static SEQ2SEQ: Keys = LazyLock::new(|| TABLES.arguments.seq2seq_lm.keys());
static IMAGES: Keys = LazyLock::new(|| TABLES.arguments.image_classification.keys());

/// The arguments that only scripts for a task have, or that have another meaning there.
pub(crate) fn of_task(task: &str) -> Table {
    match task {
        "seq2seq-lm" => &SEQ2SEQ,
        "image-classification" => &IMAGES,
        _ => &[],
    }
}

/// The arguments of a script, for values that depend on several.
pub(super) struct Arguments<'a>(pub(super) &'a Map<String, Value>);

impl Arguments<'_> {
    pub(super) fn is_on(&self, key: &str) -> bool {
        self.0.get(key).is_some_and(|value| !is_off(value))
    }

    /// Whether the script evaluates: TrainingArguments sets `do_eval` where `eval_strategy` is not `no`.
    /// `strategy` is the name of notebooks' scripts for it.
    pub(super) fn evaluates(&self) -> bool {
        let keys = ["do_eval", "eval_strategy", "evaluation_strategy", "strategy"];
        keys.iter().any(|key| self.is_on(key))
    }

    pub(super) fn number(&self, key: &str) -> Option<f64> {
        self.0.get(key).and_then(Value::as_f64)
    }

    pub(super) fn text(&self, key: &str) -> Option<String> {
        self.0.get(key).filter(|value| !value.is_null()).map(shown)
    }
}

/// The script of a path.
pub(crate) fn script_of(path: &str) -> Option<Script> {
    let file = path.rsplit('/').next().unwrap_or_default();
    let name = file.strip_suffix(".py").unwrap_or(file);
    let (name, script) = TABLES.scripts.get_key_value(name)?;
    Some(Script { name, task: &script.task, unsupported: script.unsupported.as_deref() })
}

/// Names of the scripts that are converted.
pub(super) fn supported() -> String {
    let supported = TABLES.scripts.iter().filter(|(_, script)| script.unsupported.is_none());
    supported.map(|(name, _)| name.as_str()).collect::<Vec<_>>().join(", ")
}
