//! The files of a repository that make up a model.

use std::path::Path;

use serde_json::Value;

use super::Problem;
use super::client::Revision;

/// Files that may belong to a tokenizer.
pub const TOKENIZER_FILES: &[&str] = &[
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
];

/// Files that sentence-transformers has beside a model that embeds texts.
const SENTENCE_FILES: [&str; 4] = [
    "modules.json",
    "1_Pooling/config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
];

pub(crate) const CONFIG: &str = "config.json";
/// Any of them makes a tokenizer, or else an image processor.
const PROCESSORS: [&str; 4] = ["tokenizer.json", "vocab.txt", "vocab.json", PREPROCESSOR_CONFIG];
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
/// How the model writes texts, where it does.
pub const GENERATION_CONFIG: &str = "generation_config.json";

/// How images become inputs of the model, where it reads images.
pub const PREPROCESSOR_CONFIG: &str = "preprocessor_config.json";

/// Returns the files to fetch first: settings, tokenizer or image processor, and the weights or their index.
pub(crate) fn listed(revision: &Revision, with_weights: bool) -> Result<Vec<&str>, Problem> {
    let has = |name: &str| revision.has(name);
    let processor = PROCESSORS.into_iter().find(|name| has(name)).unwrap_or(PROCESSORS[0]);
    if let Some(file) = [CONFIG, processor].into_iter().find(|name| !has(name)) {
        return Err(Problem::NoFile { file });
    }
    let weights = [INDEX, WEIGHTS].into_iter().find(|name| has(name)).filter(|_| with_weights);
    if weights.is_none() && with_weights {
        let is_pickle = |file: &String| file.ends_with(".bin") || file.ends_with(".pt");
        return Err(match revision.files.iter().any(is_pickle) {
            true => Problem::PickleOnly,
            false => Problem::NoFile { file: WEIGHTS },
        });
    }
    let others = TOKENIZER_FILES.iter().copied();
    let others =
        others.chain([GENERATION_CONFIG, PREPROCESSOR_CONFIG]).chain(SENTENCE_FILES).chain(weights);
    let dense =
        revision.files.iter().map(String::as_str).filter(|name| is_of_dense(name, with_weights));
    Ok([CONFIG].into_iter().chain(others.filter(|name| has(name))).chain(dense).collect())
}

/// Whether a file is one of a linear layer behind the pooling, in a folder like `2_Dense`.
fn is_of_dense(name: &str, with_weights: bool) -> bool {
    let Some((folder, file)) = name.split_once('/') else { return false };
    let number = folder.strip_suffix("_Dense").unwrap_or_default();
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|it| it.is_ascii_digit());
    is_number && (file == CONFIG || file == WEIGHTS && with_weights)
}

/// Returns the weight files that the index of a snapshot names.
pub(crate) fn shards(snapshot: &Path, with_weights: bool) -> Result<Vec<String>, Problem> {
    let Ok(text) = std::fs::read(snapshot.join(INDEX)) else { return Ok(Vec::new()) };
    if !with_weights {
        return Ok(Vec::new());
    }
    let corrupt = || Problem::Corrupt { file: INDEX.to_owned() };
    let index: Value = serde_json::from_slice(&text).map_err(|_| corrupt())?;
    let map = index.get("weight_map").and_then(Value::as_object).ok_or_else(corrupt)?;
    let mut names: Vec<String> =
        map.values().filter_map(Value::as_str).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    // The names become paths: only files beside the index are allowed.
    match names.iter().all(|name| name.ends_with(".safetensors") && !name.contains('/')) {
        true => Ok(names),
        false => Err(corrupt()),
    }
}

pub(crate) fn are_complete(snapshot: &Path, with_weights: bool) -> bool {
    let has = |name: &str| snapshot.join(name).exists();
    let has_weights = || match has(INDEX) {
        true => shards(snapshot, true).is_ok_and(|names| names.iter().all(|name| has(name))),
        false => has(WEIGHTS),
    };
    has(CONFIG) && PROCESSORS.into_iter().any(has) && (!with_weights || has_weights())
}
