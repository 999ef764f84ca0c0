//! Refuses models with fewer embeddings than their tokenizers have tokens.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use traind_job_file::{JobFile, TaskName};
use traind_models::{Error as ModelError, Model};

use crate::error::{RunError, RunResult};

/// The largest file to read. Those of 256k tokens with merges have some 35 MB.
const BYTES_MAX: u64 = 48 << 20;

/// The parts of a `tokenizer.json` with the ids of tokens.
#[derive(Deserialize)]
struct Tokenizer {
    #[serde(default)]
    added_tokens: Vec<AddedToken>,
    model: Vocabulary,
}

#[derive(Deserialize)]
struct AddedToken {
    id: u64,
}

#[derive(Deserialize)]
struct Vocabulary {
    vocab: Value,
}

/// Checks the tokenizer in the folder of the model's config. One that cannot be read is the run's to report, and so is
/// one without a `tokenizer.json`.
pub(in crate::plan) fn check(job: &JobFile, model: &Model) -> RunResult<()> {
    let reads_texts = job.model.task != TaskName::ImageClassification;
    let folder = model.config().path().parent().filter(|_| reads_texts);
    let Some(tokens) = folder.and_then(|folder| tokens(&folder.join("tokenizer.json"))) else {
        return Ok(());
    };
    match model.check_vocabulary(tokens) {
        Err(error @ ModelError::Vocabulary { .. }) => Err(RunError::Field {
            name: field(job),
            value: String::new(),
            problem: error.to_string(),
        }),
        checked => Ok(checked?),
    }
}

/// The field of the job file that is likely at fault.
fn field(job: &JobFile) -> &'static str {
    let overrides = serde_json::to_value(&job.model.config_overrides).unwrap_or_default();
    match overrides.get("vocab_size") {
        Some(_) => "model.config_overrides",
        None => "model.name_or_path",
    }
}

/// One more than the largest id of a tokenizer.
fn tokens(file: &Path) -> Option<usize> {
    if file.metadata().ok()?.len() > BYTES_MAX {
        return None;
    }
    let Tokenizer { added_tokens, model } = serde_json::from_slice(&fs::read(file).ok()?).ok()?;
    let largest = match &model.vocab {
        // Of WordPiece, WordLevel and BPE; ids may have gaps.
        Value::Object(ids) => ids.values().filter_map(Value::as_u64).max(),
        // Of Unigram, whose ids are places.
        Value::Array(pieces) => (pieces.len() as u64).checked_sub(1),
        _ => None,
    };
    let added = added_tokens.iter().map(|token| token.id);
    let largest = added.chain(largest).max()?;
    usize::try_from(largest).ok().map(|id| id.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_counted_up_to_the_largest_id() {
        let folder = tempfile::tempdir().unwrap();
        let check = |json: &str, expect: Option<usize>| {
            let file = folder.path().join("tokenizer.json");
            fs::write(&file, json).unwrap();
            assert_eq!(tokens(&file), expect, "{json}");
        };
        check(r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 6}}}"#, Some(7));
        check(r#"{"added_tokens": [{"id": 9}], "model": {"vocab": {"a": 0}}}"#, Some(10));
        check(r#"{"model": {"vocab": [["a", -1.0], ["b", -2.0]]}}"#, Some(2));
        check(r#"{"model": {"vocab": []}}"#, None);
        check(r#"{"model": {"vocab": {"a": 18446744073709551615}}}"#, Some(usize::MAX));
        check("{", None);
        assert_eq!(tokens(&folder.path().join("none.json")), None);
    }
}
