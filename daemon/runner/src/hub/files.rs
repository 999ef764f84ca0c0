//! Which files of a repository make a model.

use std::path::Path;

use serde_json::Value;

use super::HubProblem;
use super::client::Info;
use crate::output::TOKENIZER_FILES;

const CONFIG: &str = "config.json";
/// Any of them makes a tokenizer.
const TOKENIZERS: [&str; 3] = ["tokenizer.json", "vocab.txt", "vocab.json"];
const WEIGHTS: &str = "model.safetensors";
const INDEX: &str = "model.safetensors.index.json";
const OPTIONAL: &str = "generation_config.json";

/// Settings, tokenizer and weights, or the index of weights in several files.
pub(super) fn first(info: &Info, from_config: bool) -> Result<Vec<&str>, HubProblem> {
    let has = |name: &str| info.files.iter().any(|file| file == name);
    let tokenizer = TOKENIZERS.into_iter().find(|name| has(name)).unwrap_or(TOKENIZERS[0]);
    if let Some(file) = [CONFIG, tokenizer].into_iter().find(|name| !has(name)) {
        return Err(HubProblem::NoFile { file });
    }
    let weights = [INDEX, WEIGHTS].into_iter().find(|name| has(name)).filter(|_| !from_config);
    if weights.is_none() && !from_config {
        let is_pickle = |file: &String| file.ends_with(".bin") || file.ends_with(".pt");
        return Err(match info.files.iter().any(is_pickle) {
            true => HubProblem::PickleOnly,
            false => HubProblem::NoFile { file: WEIGHTS },
        });
    }
    let mut wanted = vec![CONFIG];
    let others = TOKENIZER_FILES.iter().copied().chain([OPTIONAL]).chain(weights);
    wanted.extend(others.filter(|name| *name != CONFIG && has(name)));
    Ok(wanted)
}

/// The files that the index of a snapshot names.
pub(super) fn shards(snapshot: &Path, from_config: bool) -> Result<Vec<String>, HubProblem> {
    let Ok(text) = std::fs::read(snapshot.join(INDEX)) else { return Ok(Vec::new()) };
    if from_config {
        return Ok(Vec::new());
    }
    let corrupt = || HubProblem::Corrupt { file: INDEX.to_owned() };
    let index: Value = serde_json::from_slice(&text).map_err(|_| corrupt())?;
    let map = index.get("weight_map").and_then(Value::as_object).ok_or_else(corrupt)?;
    let mut names: Vec<String> =
        map.values().filter_map(Value::as_str).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    // A name is put into a path: it is one of a file beside the index or none at all.
    match names.iter().all(|name| name.ends_with(".safetensors") && !name.contains('/')) {
        true => Ok(names),
        false => Err(corrupt()),
    }
}

/// Whether a snapshot has all that is needed.
pub(super) fn is_complete(snapshot: &Path, from_config: bool) -> bool {
    let has = |name: &str| snapshot.join(name).exists();
    let weights = match has(INDEX) {
        true => shards(snapshot, false).is_ok_and(|names| names.iter().all(|name| has(name))),
        false => has(WEIGHTS),
    };
    let tokenizer = TOKENIZERS.into_iter().any(has);
    has(CONFIG) && tokenizer && (from_config || weights)
}
