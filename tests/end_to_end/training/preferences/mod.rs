//! Preferences besides dpo beside TRL's: `scripts/fixtures/preference_runs.py` writes the rows and what RewardTrainer,
//! ORPOTrainer, CPOTrainer and KTOTrainer log of them.

pub(super) mod dpo;

use std::fs;

use serde_json::{Value, json};
use traind_tests::model::Weights;
use traind_tests::{Draft, Host};

use super::sft::{draft, fixture, lines, repository, set_all};

/// Relative to the value and 1: at the first step, whose weights are the same, and later.
const LIMIT_FIRST: f64 = 1e-5;
const LIMIT: f64 = 1e-3;

/// The job of one of the fixture's runs, which evaluates the first rows at its end.
fn run_draft(host: &Host, name: &str, fixture: &Value, run: &str) -> Draft {
    let run = &fixture["runs"][run];
    let (task, rows) =
        (run["task"].as_str().unwrap(), &fixture["rows"][run["rows"].as_str().unwrap()]);
    let content = json!({"rows": rows, "data": fixture["data"], "train": fixture["train"]});
    let validation = lines(&rows.as_array().unwrap()[..8]);
    let draft = draft(host, name, task, &content)
        .write("validation.jsonl", validation)
        .set("data.validation", "validation.jsonl")
        .set("train.save_strategy", "no");
    if task == "reward" {
        for name in ["config.json", "model.safetensors"] {
            let from = repository().join("daemon/runner/fixtures/preferences/reward").join(name);
            fs::copy(from, draft.path("model").join(name)).unwrap();
        }
    }
    set_all(draft, task, &run["settings"])
}

/// Compares the log with TRL's, entry by entry, and with it the names of the metrics.
fn check(draft: &Draft, fixture: &Value, run: &str) {
    let state = draft.output("out").trainer_state();
    let ours = [state.history("loss"), state.history("eval_loss")].concat();
    let expected = fixture["runs"][run]["history"].as_array().unwrap();
    assert_eq!(ours.len(), expected.len(), "{run}");
    for (step, (ours, expected)) in ours.iter().zip(expected).enumerate() {
        let limit = if step == 0 { LIMIT_FIRST } else { LIMIT };
        dpo::check_entry(ours, expected, |_| true, limit, &format!("entry {step} of {run}"));
        let is_metric =
            |name: &&String| name.trim_start_matches("eval_").contains('/') || name.ends_with("kl");
        for name in ours.as_object().unwrap().keys().filter(is_metric) {
            assert!(expected.get(name).is_some(), "{run}, entry {step} has {name}, TRL's has not");
        }
    }
}

/// Each run on a mesh of two cores, or on one.
async fn check_runs(runs: &[(&str, &str, usize)]) {
    let fixture = fixture("preferences/preferences.json");
    let host = Host::started(2).await;
    for &(run, parallel, rows) in runs {
        let cores = if parallel.is_empty() { 1 } else { 2 };
        let mut draft = run_draft(&host, run, &fixture, run)
            .set("resources.cores", cores)
            .set("train.per_device_train_batch_size", rows);
        if cores == 2 {
            draft = draft.set("parallel", parallel);
        }
        host.complete(&draft).await;
        check(&draft, &fixture, run);
        if run == "reward" {
            check_reward_model(&draft);
        }
    }
}

/// The output is a classifier with one output, as AutoModelForSequenceClassification loads it.
fn check_reward_model(draft: &Draft) {
    let config = draft.output("out").json("config.json");
    assert_eq!(config["architectures"], json!(["LlamaForSequenceClassification"]));
    assert_eq!(config["id2label"], json!({"0": "LABEL_0"}));
    assert_eq!(config["pad_token_id"], 2);
    let weights = Weights::read(draft.path("out/model.safetensors"));
    assert_eq!(weights.header["score.weight"]["shape"], json!([1, 16]));
}

/// The extremes of rewards are those of all cores.
#[tokio::test]
async fn reward_models_are_those_of_trl() {
    check_runs(&[("reward", "{data: 2}", 2)]).await;
}

/// Micro-batches would be batches of their own.
#[tokio::test]
async fn models_learn_without_a_reference_as_by_trl() {
    check_runs(&[
        ("orpo", "{data: 2}", 2),
        ("cpo", "{pipeline: 2, microbatches: 1}", 4),
        ("simpo", "{data: 2, fsdp: full_shard}", 2),
    ])
    .await;
}

/// The divergence is estimated from the rows of all cores.
#[tokio::test]
async fn single_completions_are_learned_as_by_trl() {
    check_runs(&[
        ("kto", "{tensor: 2}", 4),
        ("kto_of_two", "{data: 2}", 2),
        ("kto_of_pairs", "", 4),
        ("apo", "{pipeline: 2, microbatches: 1}", 4),
    ])
    .await;
}

/// The reference of adapters is the model without them, of which a new adapter changes nothing.
#[tokio::test]
async fn adapters_begin_as_their_reference() {
    let fixture = fixture("preferences/preferences.json");
    let host = Host::started(1).await;
    let draft = run_draft(&host, "adapters", &fixture, "kto")
        .set("peft", "{method: lora, r: 4}")
        .set("train.max_steps", 2);
    host.complete(&draft).await;
    let state = draft.output("out").trainer_state();
    let ours = state.history("loss");
    let expected = &fixture["runs"]["kto"]["history"][0];
    dpo::check_entry(ours[0], expected, |_| true, LIMIT_FIRST, "the first entry");
    assert!(ours[1]["rewards/margins"].as_f64().unwrap() != 0.0);
    assert!(draft.path("out/adapter_model.safetensors").exists());
}
