//! Supervised fine-tuning beside TRL's: `scripts/fixtures/sft.py` writes the model, the rows and the losses.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use traind_tests::{Draft, Host};

/// Relative: at the first step, whose weights are the same, and later.
const LIMIT_FIRST: f64 = 1e-5;
const LIMIT: f64 = 1e-4;

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The content of a fixture of the runner.
pub(crate) fn fixture(path: &str) -> Value {
    let file = repository().join("daemon/runner/fixtures").join(path);
    serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap()
}

/// The job of a fixture, with its model folder and rows.
pub(crate) fn draft(host: &Host, name: &str, task: &str, run: &Value) -> Draft {
    let job_file = format!(
        "name: {name}\nmodel: {{name_or_path: ./model, task: {task}}}\n\
         data: {{train: train.jsonl, validation: train.jsonl}}\noutput_dir: out\n"
    );
    let mut draft = Draft::of_job_file(host, name, &job_file);
    fs::create_dir(draft.path("model")).unwrap();
    let chat = repository().join("loader/tests/fixtures/chat");
    let model = repository().join("daemon/runner/fixtures/sft");
    for (from, name) in [
        (model.join("config.json"), "config.json"),
        (model.join("model.safetensors"), "model.safetensors"),
        (chat.join("tokenizer/tokenizer.json"), "tokenizer.json"),
        (chat.join("tokenizer/tokenizer_config.json"), "tokenizer_config.json"),
        (chat.join("templates/chatml_generation.jinja"), "chat_template.jinja"),
    ] {
        fs::copy(from, draft.path("model").join(name)).unwrap();
    }
    draft = draft.write("train.jsonl", lines(run["rows"].as_array().unwrap()));
    for section in ["data", "train"] {
        draft = set_all(draft, section, &run[section]);
    }
    draft.set("train.train_sampling_strategy", "sequential").set("train.logging_steps", 1)
}

/// The rows as JSON lines.
pub(crate) fn lines(rows: &[Value]) -> String {
    rows.iter().map(|row| format!("{row}\n")).collect()
}

/// The draft with all keys of a section.
pub(crate) fn set_all(mut draft: Draft, section: &str, keys: &Value) -> Draft {
    for (key, value) in keys.as_object().unwrap() {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        draft = draft.set(&format!("{section}.{key}"), value);
    }
    draft
}

/// Packed conversations of which the answers alone count. The evaluation is of the trained weights.
#[tokio::test]
async fn losses_are_those_of_trl() {
    let run = fixture("sft/sft.json");
    let host = Host::started_optimized(1).await;
    let draft = draft(&host, "sft", "sft", &run);
    host.complete(&draft).await;
    let output = draft.output("out");
    let losses = output.trainer_state().series("loss");
    let expected: Vec<f64> =
        run["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect();
    assert_eq!(losses.len(), expected.len());
    for (step, (found, expect)) in losses.iter().zip(&expected).enumerate() {
        let limit = if step == 0 { LIMIT_FIRST } else { LIMIT };
        assert!((found / expect - 1.0).abs() <= limit, "step {step}: {found}, TRL's is {expect}");
    }
    let evaluated = output.trainer_state().series("eval_mean_token_accuracy");
    assert!(evaluated.iter().all(|accuracy| (0.0..=1.0).contains(accuracy)), "{evaluated:?}");
    assert!(!evaluated.is_empty());
    assert!(output.names().contains(&"chat_template.jinja".to_owned()));
}

/// A chat with the adapters of a job, with those of its folder, and with the merged model.
#[tokio::test]
async fn adapters_answer_as_the_merged_model_does() {
    let run = fixture("sft/sft.json");
    let host = Host::started(1).await;
    let mut answers = Vec::new();
    let ask = ["what is it?", "--chat", "--max-new-tokens", "4", "-o", "json"];
    for (name, merge) in [("adapters", "false"), ("merged", "true")] {
        let draft = draft(&host, name, "sft", &run)
            .set("peft.method", "lora")
            .set("peft.merge", merge)
            .set("peft.target_modules", "all-linear")
            .set("train.learning_rate", 3e-2);
        host.complete(&draft).await;
        let folder = draft.output("out").folder().to_owned();
        answers.push(host.cli(&folder, &[&["generate", "."], &ask[..]].concat()));
        answers.push(host.cli(&folder, &[&["generate", "--job", name], &ask[..]].concat()));
    }
    for answer in &answers {
        assert_eq!((answer.code, &answer.stdout), (Some(0), &answers[0].stdout), "{answer:?}");
    }
    let untrained = host.path("adapters/model");
    let before = host.cli(&untrained, &[&["generate", "."], &ask[..]].concat());
    assert_ne!(before.stdout, answers[0].stdout, "adapters change the answer");
}
