//! Supervised fine-tuning beside TRL's: `scripts/fixtures/sft.py` writes the model, the rows and the losses.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use traind_tests::{Draft, Host};

/// Relative: at the first step, whose weights are the same, and later.
const LIMIT_FIRST: f64 = 1e-5;
const LIMIT: f64 = 1e-4;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The job of the fixture, with its model folder and rows.
fn draft(host: &Host, run: &Value) -> Draft {
    let job_file = "name: sft\nmodel: {name_or_path: ./model, task: sft}\n\
                    data: {train: train.jsonl, validation: train.jsonl}\noutput_dir: out\n";
    let mut draft = Draft::of_job_file(host, "sft", job_file);
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
    let rows = run["rows"].as_array().unwrap().iter().map(|row| format!("{row}\n"));
    draft = draft.write("train.jsonl", rows.collect::<String>());
    for section in ["data", "train"] {
        for (key, value) in run[section].as_object().unwrap() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            draft = draft.set(&format!("{section}.{key}"), value);
        }
    }
    draft.set("train.train_sampling_strategy", "sequential").set("train.logging_steps", 1)
}

/// Packed conversations of which the answers alone count. The evaluation is of the trained weights.
#[tokio::test]
async fn losses_are_those_of_trl() {
    let fixture = repository().join("daemon/runner/fixtures/sft/sft.json");
    let run: Value = serde_json::from_str(&fs::read_to_string(fixture).unwrap()).unwrap();
    let host = Host::started(1).await;
    let draft = draft(&host, &run);
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
