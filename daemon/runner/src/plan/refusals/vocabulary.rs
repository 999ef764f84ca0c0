//! Refuses models with fewer embeddings than their tokenizers have tokens.

use std::fs;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;
use traind_job_file::{JobFile, TaskName};
use traind_models::{Error as ModelError, Model};

use crate::error::{RunError, RunResult};
use crate::model::no_such_token;

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
    #[serde(default)]
    content: String,
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
    let Some(tokenizer) = folder.and_then(|folder| read(&folder.join("tokenizer.json"))) else {
        return Ok(());
    };
    check_end(job, &tokenizer)?;
    let Some(tokens) = tokenizer.tokens() else { return Ok(()) };
    match model.check_vocabulary(tokens) {
        Err(error @ ModelError::Vocabulary { .. }) => Err(RunError::Field {
            name: field(job),
            value: String::new(),
            problem: error.to_string(),
        }),
        checked => Ok(checked?),
    }
}

/// Refuses a token that ends texts and is none of the tokenizer.
fn check_end(job: &JobFile, tokenizer: &Tokenizer) -> RunResult<()> {
    let Some(token) = &job.data.eos_token else { return Ok(()) };
    match tokenizer.has(token) || job.model.new_tokens().any(|(_, new)| new == token) {
        true => Ok(()),
        false => Err(no_such_token("data.eos_token", token)),
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

fn read(file: &Path) -> Option<Tokenizer> {
    if file.metadata().ok()?.len() > BYTES_MAX {
        return None;
    }
    serde_json::from_slice(&fs::read(file).ok()?).ok()
}

impl Tokenizer {
    /// One more than the largest id.
    fn tokens(&self) -> Option<usize> {
        let largest = match &self.model.vocab {
            // WordPiece, WordLevel and BPE have ids, which may have gaps.
            Value::Object(ids) => ids.values().filter_map(Value::as_u64).max(),
            // The ids of Unigram are places.
            Value::Array(pieces) => (pieces.len() as u64).checked_sub(1),
            _ => None,
        };
        let added = self.added_tokens.iter().map(|token| token.id);
        let largest = added.chain(largest).max()?;
        usize::try_from(largest).ok().map(|id| id.saturating_add(1))
    }

    fn has(&self, token: &str) -> bool {
        let is_added = self.added_tokens.iter().any(|added| added.content == token);
        is_added
            || match &self.model.vocab {
                Value::Object(ids) => ids.contains_key(token),
                Value::Array(pieces) => pieces.iter().any(|piece| piece[0] == token),
                _ => false,
            }
    }
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
            let found = read(&file).and_then(|tokenizer| tokenizer.tokens());
            assert_eq!(found, expect, "{json}");
        };
        check(r#"{"model": {"type": "BPE", "vocab": {"a": 0, "b": 6}}}"#, Some(7));
        check(r#"{"added_tokens": [{"id": 9}], "model": {"vocab": {"a": 0}}}"#, Some(10));
        check(r#"{"model": {"vocab": [["a", -1.0], ["b", -2.0]]}}"#, Some(2));
        check(r#"{"model": {"vocab": []}}"#, None);
        check(r#"{"model": {"vocab": {"a": 18446744073709551615}}}"#, Some(usize::MAX));
        check("{", None);
        assert!(read(&folder.path().join("none.json")).is_none());
    }
}
