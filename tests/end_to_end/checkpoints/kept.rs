//! Checkpoints of all kept versions: a run continues from each as the version that wrote it did. A change of what a
//! checkpoint has needs a new one, which `TRAIND_WRITE_FIXTURES=1` writes; older ones stay.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use traind_tests::model::Weights;
use traind_tests::{Draft, Host, Output};

use crate::training::sft::repository;

/// The step of the kept checkpoints, and the last one of their runs.
const KEPT: u64 = 3;
const STEPS: u64 = 5;

/// Relative: processors round differently.
const LIMIT: f64 = 1e-4;

/// The files of a checkpoint that are not as transformers writes them, or that a run resumes from.
const FILES: [&str; 5] = [
    "manifest.json",
    "training_state.json",
    "trainer_state.json",
    "optimizer.safetensors",
    "model.safetensors",
];

/// The losses of the steps after the checkpoint, in the folder of a kept checkpoint's run.
const LOSSES: &str = "losses.json";

fn folder() -> PathBuf {
    repository().join("daemon/runner/fixtures/checkpoints")
}

/// The folders of the kept runs, oldest first.
fn kept() -> Vec<PathBuf> {
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = fs::read_dir(folder()).into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.sort_by_key(number);
    folders
}

fn draft(host: &Host, name: &str) -> Draft {
    Draft::new(host, name)
        .set("model.config_overrides", "{hidden_dropout_prob: 0.1}")
        .set("train.max_steps", STEPS)
        .set("train.save_steps", KEPT)
        .set("train.eval_strategy", "no")
}

fn losses(output: &Output) -> Vec<f64> {
    output.trainer_state().series("loss")[KEPT as usize..].to_vec()
}

/// The types of the values in a JSON file, without the values.
fn types(value: &Value) -> Value {
    match value {
        Value::Null => json!(null),
        Value::Bool(_) => json!("boolean"),
        Value::Number(_) => json!("number"),
        Value::String(_) => json!("text"),
        Value::Array(values) => values.iter().map(types).collect(),
        Value::Object(keys) => keys.iter().map(|(key, it)| (key.clone(), types(it))).collect(),
    }
}

/// The keys of the files of a checkpoint, and the names and shapes of its tensors.
fn shape(checkpoint: &Path) -> BTreeMap<&'static str, Value> {
    let shape = |name: &str| {
        let path = checkpoint.join(name);
        match name.ends_with(".json") {
            true => types(&serde_json::from_slice(&fs::read(path).unwrap()).unwrap()),
            false => Weights::read(path).header,
        }
    };
    FILES.into_iter().map(|name| (name, shape(name))).collect()
}

/// Keeps the checkpoint of this version's run.
fn keep(checkpoint: &Path, losses: &[f64]) {
    let folder = folder().join((kept().len() + 1).to_string());
    fs::create_dir_all(&folder).unwrap();
    for entry in fs::read_dir(checkpoint).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, folder.join(path.file_name().unwrap())).unwrap();
    }
    fs::write(folder.with_extension(LOSSES), json!(losses).to_string()).unwrap();
}

#[tokio::test]
async fn runs_continue_from_checkpoints_of_all_kept_versions() {
    let host = Host::started(1).await;
    let own = draft(&host, "own");
    host.complete(&own).await;
    let own_checkpoint = super::checkpoint(&own, KEPT);
    let newest = kept().pop().map(|folder| shape(&folder));
    let is_kept = newest == Some(shape(&own_checkpoint));
    if !is_kept && std::env::var_os("TRAIND_WRITE_FIXTURES").is_some() {
        keep(&own_checkpoint, &losses(&own.output("out")));
    } else {
        assert!(
            is_kept,
            "what a checkpoint has changed: set TRAIND_WRITE_FIXTURES=1 to keep one of this version"
        );
    }
    for folder in kept() {
        let name = format!("from-{}", folder.file_name().unwrap().display());
        let draft = draft(&host, &name).set("train.resume_from_checkpoint", folder.display());
        let history = host.complete(&draft).await;
        assert_eq!(history.resumed()[0].step, KEPT);
        assert!(history.warnings("RESUME_INEXACT").is_empty(), "{:?}", history.event_names());
        let text = fs::read_to_string(folder.with_extension(LOSSES)).unwrap();
        let expected: Vec<f64> = serde_json::from_str(&text).unwrap();
        let found = losses(&draft.output("out"));
        assert_eq!(found.len(), expected.len());
        for (found, expect) in found.iter().zip(&expected) {
            assert!((found / expect - 1.0).abs() <= LIMIT, "{name}: {found}, not {expect}");
        }
    }
}
