//! The names of the files that a run writes at the top of its output folder.

/// The files that a run copies from the model's folder: tokenizer, image processor and settings of generation.
pub const COPIED_FILES: [&str; 13] = [
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "spiece.model",
    "sentencepiece.bpe.model",
    "chat_template.jinja",
    "additional_chat_templates/tool_use.jinja",
    "generation_config.json",
    "preprocessor_config.json",
];

/// The model card. One that traind did not write is left as it is.
pub const MODEL_CARD: &str = "README.md";

pub(crate) const ADAPTER_CONFIG: &str = "adapter_config.json";
const ADAPTER_FILES: [&str; 2] = [ADAPTER_CONFIG, "adapter_model.safetensors"];
/// Files that sentence-transformers reads beside a model that embeds texts.
const SENTENCE_FILES: [&str; 4] = [
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];
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
    COPIED_FILES.contains(&name)
}

/// Returns true for any file that a run may write into its output folder.
pub(crate) fn is_written(name: &str) -> bool {
    is_model(name)
        || is_adapter(name)
        || is_state(name)
        || is_result(name)
        || is_copied(name)
        || SENTENCE_FILES.contains(&name)
        || is_of_dense(name)
        || name == MODEL_CARD
}

/// Returns true for a file of a folder whose name is a number and `_Dense`.
fn is_of_dense(name: &str) -> bool {
    let Some((folder, file)) = name.split_once('/') else { return false };
    let number = folder.strip_suffix("_Dense").unwrap_or_default();
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|it| it.is_ascii_digit());
    is_number && DENSE_FILES.contains(&file)
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
