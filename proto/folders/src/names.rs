//! The names of the files that a run writes at the top of its output folder.

use traind_choices::{COMPANION_FILES, SENTENCE_FILES, file_of_dense};

/// The model card. One that traind did not write is left as it is.
pub const MODEL_CARD: &str = "README.md";

pub(crate) const ADAPTER_CONFIG: &str = "adapter_config.json";
const ADAPTER_FILES: [&str; 2] = [ADAPTER_CONFIG, "adapter_model.safetensors"];
/// Files of a linear layer behind the pooling, in folders like `2_Dense`.
const DENSE_FILES: [&str; 2] = ["config.json", "model.safetensors"];
const STATE_FILES: [&str; 2] = ["trainer_state.json", "loss_curve.svg"];
const RESULTS: [&str; 5] = [
    "predictions.parquet",
    "predictions.json",
    "nbest_predictions.json",
    "null_odds.json",
    "confusion_matrix.svg",
];

/// Returns true for config and weights of a whole model: `config.json`, `model.safetensors`, its shards and their
/// index.
pub fn is_model(name: &str) -> bool {
    let shard = name.strip_prefix("model-").and_then(|rest| rest.strip_suffix(".safetensors"));
    let is_number = |text: &str| text.len() == 5 && text.bytes().all(|byte| byte.is_ascii_digit());
    let counts =
        |shard: &str| shard.split_once("-of-").is_some_and(|(n, m)| is_number(n) && is_number(m));
    ["config.json", "model.safetensors", "model.safetensors.index.json"].contains(&name)
        || shard.is_some_and(counts)
}

/// Returns true for config and weights of adapters.
pub fn is_adapter(name: &str) -> bool {
    ADAPTER_FILES.contains(&name)
}

/// Returns true for files that describe a finished training.
pub(crate) fn is_state(name: &str) -> bool {
    STATE_FILES.contains(&name)
}

/// Returns true for the results of an evaluation or a prediction.
pub(crate) fn is_result(name: &str) -> bool {
    RESULTS.contains(&name)
}

/// Returns true for the copied files.
pub(crate) fn is_copied(name: &str) -> bool {
    COMPANION_FILES.contains(&name)
}

/// Returns true for any file that a run may write into its output folder.
pub(crate) fn is_written(name: &str) -> bool {
    is_model(name)
        || is_adapter(name)
        || is_state(name)
        || is_result(name)
        || is_copied(name)
        || SENTENCE_FILES.contains(&name)
        || file_of_dense(name).is_some_and(|file| DENSE_FILES.contains(&file))
        || name == MODEL_CARD
}

/// Returns true for a file that a checkpoint may consist of, complete or not.
pub(crate) fn is_of_checkpoint(name: &str) -> bool {
    let whole = name.strip_suffix(".part").unwrap_or(name);
    let is_tensors = |stem: &str| whole.starts_with(stem) && whole.ends_with(".safetensors");
    is_written(whole)
        || ["manifest.json", "training_state.json"].contains(&whole)
        || is_tensors("optimizer")
        || is_tensors("parameters")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_known_by_their_numbers() {
        for name in ["model-00001-of-00003.safetensors", "model.safetensors", "config.json"] {
            assert!(is_model(name), "{name}");
        }
        for name in ["2_Dense/config.json", "13_Dense/model.safetensors", "1_Pooling/config.json"] {
            assert!(is_written(name), "{name}");
        }
        for name in [
            "_Dense/config.json",
            "x_Dense/config.json",
            "2_Dense/notes.txt",
            "model-of-mine.safetensors",
            "model-1-of-3.safetensors",
            "pytorch_model.bin",
            "config.yaml",
        ] {
            assert!(!is_written(name), "{name}");
        }
    }

    #[test]
    fn unfinished_files_belong_to_a_checkpoint() {
        for name in [
            "model.safetensors.part",
            "optimizer-00001-of-00002.safetensors",
            "parameters-00001-of-00002.safetensors",
        ] {
            assert!(is_of_checkpoint(name), "{name}");
        }
        for name in ["notes.txt", "optimizer.pt", ".part"] {
            assert!(!is_of_checkpoint(name), "{name}");
        }
    }
}
