//! The files of a repository that make up a model.

use std::path::Path;

use serde_json::Value;
use traind_choices::{COMPANION_FILES, PREPROCESSOR_CONFIG, SENTENCE_FILES, file_of_dense};

use super::Problem;
use super::client::Revision;

pub(crate) const CONFIG: &str = "config.json";
/// Any of them makes a tokenizer, or else an image processor.
const PROCESSORS: [&str; 4] = ["tokenizer.json", "vocab.txt", "vocab.json", PREPROCESSOR_CONFIG];
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";

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
    let others = COMPANION_FILES.into_iter().chain(SENTENCE_FILES).chain(weights);
    let is_wanted = |file: &str| file == CONFIG || file == WEIGHTS && with_weights;
    let is_of_dense = |name: &&str| file_of_dense(name).is_some_and(is_wanted);
    let dense = revision.files.iter().map(String::as_str).filter(is_of_dense);
    Ok([CONFIG].into_iter().chain(others.filter(|name| has(name))).chain(dense).collect())
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
