//! Supervised fine-tuning beside TRL's: `scripts/fixtures/sft.py` writes the model, the rows and the losses.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
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

/// The predictions of prompts, which no loss reads, are left out on a job that has all processors, but not on one core
/// of several.
#[tokio::test]
async fn prompts_are_not_predicted_and_losses_are_the_same() {
    let processors = std::thread::available_parallelism().unwrap().get();
    let rows = (0..8 * processors).map(|row| {
        let prompt = ["the movie", "one two three", "hello world the movie was"][row % 3];
        let completion = [" great", " too and hello"][row % 2];
        json!({"prompt": prompt, "completion": completion})
    });
    let rows: Vec<_> = rows.collect();
    let run = json!({
        "rows": rows, "data": {"max_length": 24},
        "train": {"max_steps": 3, "learning_rate": 0.01, "eval_strategy": "epoch"},
    });
    let host = Host::started(processors as u32).await;
    let mut logged = Vec::new();
    for (name, cores) in [("one", 1), ("all", processors)] {
        let draft = draft(&host, name, "sft", &run)
            .set("resources.cores", cores)
            .set("train.per_device_train_batch_size", 2 * processors / cores)
            .set("train.per_device_eval_batch_size", 2 * processors / cores);
        host.complete(&draft).await;
        let programs = host.cli(draft.folder(), &["programs", name]).stdout;
        for program in ["train_step-", "eval_step-"] {
            let is_of_labels =
                |line: &&str| line.starts_with(program) && line.contains("-predicted");
            let has_any = programs.lines().any(|line| is_of_labels(&line));
            assert_eq!(has_any, cores == processors, "{programs}");
        }
        let state = draft.output("out").trainer_state();
        logged.push(["loss", "grad_norm", "eval_loss"].map(|key| state.series(key)));
    }
    for (one, all) in logged[0].iter().zip(&logged[1]) {
        assert!(!one.is_empty() && one.len() == all.len(), "{logged:?}");
        let is_close = |(one, all): (&f64, &f64)| (one - all).abs() <= 2e-5 * one.abs();
        assert!(one.iter().zip(all).all(is_close), "{logged:?}");
    }
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
