//! Mappings of TrainingArguments that are given as JSON text, as on a command line.

use crate::aliases::section_of;
use crate::node::{Node, Value};
use crate::problems::{Problems, join};

/// Arguments that are mappings: `_VALID_DICT_FIELDS` of transformers.
pub const MAPPINGS: &[&str] = &[
    "accelerator_config",
    "fsdp_config",
    "deepspeed",
    "activation_checkpointing_kwargs",
    "gradient_checkpointing_kwargs",
    "lr_scheduler_kwargs",
];

/// Parses text that begins with a brace, as TrainingArguments does. Other text names a file.
pub(super) fn apply(root: &mut Node, problems: &mut Problems) {
    let Some(train) = section_of(root, "train") else { return };
    for entry in train.iter_mut().filter(|entry| MAPPINGS.contains(&entry.key.as_str())) {
        let Value::Text(text) = &entry.node.value else { continue };
        if !text.starts_with('{') {
            continue;
        }
        match serde_json::from_str(text) {
            Ok(Node { value, .. }) => entry.node.value = value,
            Err(error) => {
                problems.violation(&join("train", &entry.key), format!("is not JSON: {error}"));
                entry.node.value = Value::Null;
            }
        }
    }
}
