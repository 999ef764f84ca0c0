//! `traind generate`, which needs no daemon.

use std::fs;

use serde_json::Value;
use traind_tests::{CommandOutput, Host, model};

use crate::training::sft::repository;

/// Generates with the model of a fixture.
fn generate(host: &Host, fixture: &str, options: &[&str]) -> CommandOutput {
    let folder = host.path(fixture);
    model::write_fixture(&folder, fixture);
    host.cli(&folder, &[&["generate", "."], options].concat())
}

#[test]
fn texts_follow_the_settings_of_model_and_command() {
    let host = Host::prepared(1);
    let json = |options: &[&str]| -> Vec<Value> {
        let options = [&["the good film", "a bad film", "-o", "json"], options].concat();
        let output = generate(&host, "t5-seq2seq-lm", &options);
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    };
    let greedy = json(&["--max-new-tokens", "6"]);
    assert_eq!(greedy.len(), 2);
    assert_eq!(greedy[0]["prompt"], "the good film");
    let tokens = greedy[0]["tokens"].as_array().unwrap();
    assert!(!tokens.is_empty() && tokens.len() <= 6, "{greedy:?}");
    let drawn = |seed| {
        json(&["--max-new-tokens", "6", "--temperature", "3", "--top-k", "0", "--seed", seed])
    };
    assert_eq!(drawn("1"), drawn("1"));
    assert_ne!(drawn("1"), drawn("2"));
    let beams = json(&["--max-new-tokens", "6", "--num-beams", "3"]);
    assert_ne!(beams, greedy);
    let none_twice = json(&["--max-new-tokens", "6", "--no-repeat-ngram-size", "1"]);
    let mut tokens = none_twice[0]["tokens"].as_array().unwrap().clone();
    let count = tokens.len();
    tokens.sort_by_key(Value::as_u64);
    tokens.dedup();
    assert_eq!(tokens.len(), count, "{none_twice:?}");
    let text = generate(&host, "t5-seq2seq-lm", &["the good film", "--max-new-tokens", "6"]);
    assert_eq!(text.stdout.trim_end_matches('\n'), greedy[0]["text"], "one row alone, as text");
}

/// PEFT saves adapters without a tokenizer. Its users take that of the base model.
#[test]
fn adapters_without_a_tokenizer_read_that_of_their_base_model() {
    let host = Host::prepared(1);
    let [base, adapters] = ["base", "adapters"].map(|name| host.path(name));
    model::write_fixture(&base, "t5-seq2seq-lm");
    fs::create_dir(&adapters).unwrap();
    let saved = repository().join("xla-backend/models/fixtures/lora-t5");
    let weights = "adapter_model.safetensors";
    fs::copy(saved.join(weights), adapters.join(weights)).unwrap();
    let text = fs::read_to_string(saved.join("adapter_config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config["base_model_name_or_path"] = base.to_str().unwrap().into();
    fs::write(adapters.join("adapter_config.json"), config.to_string()).unwrap();
    let json = |folder, options: &[&str]| -> Value {
        let prompt = ["generate", ".", "the good film", "--max-new-tokens", "6", "-o", "json"];
        let output = host.cli(folder, &[&prompt, options].concat());
        assert_eq!(output.code, Some(0), "{}", output.stderr);
        serde_json::from_str(&output.stdout).unwrap()
    };
    for options in [&[][..], &["--num-beams", "3"]] {
        let found = json(&adapters, options);
        for name in ["tokenizer.json", "tokenizer_config.json"] {
            fs::copy(base.join(name), adapters.join(name)).unwrap();
        }
        assert_eq!(json(&adapters, options), found, "with a tokenizer of their own");
        fs::remove_file(adapters.join("tokenizer.json")).unwrap();
    }
}

#[test]
fn models_and_settings_that_cannot_generate_are_refused() {
    let host = Host::prepared(1);
    let refused = |fixture, options: &[&str], expect: &str| {
        let output = generate(&host, fixture, options);
        assert_eq!(output.code, Some(1), "{}", output.stdout);
        assert!(output.stderr.contains(expect), "{}", output.stderr);
    };
    refused("bert-causal-lm", &["the"], "models of type bert generate no text");
    refused(
        "bert-sequence-classification",
        &["the"],
        "BertForSequenceClassification generates no texts",
    );
    refused("t5-seq2seq-lm", &["the", "--top-p", "2"], "--top-p: expected a number from 0 to 1");
    let stop = ["the", "--early-stopping", "often"];
    let output = generate(&host, "t5-seq2seq-lm", &stop);
    assert!(output.stderr.contains("expected true, false or never"), "{}", output.stderr);
    let long = ["the", "--max-new-tokens", "99"];
    refused("bart-seq2seq-lm", &long, "texts of 100 tokens, and the model has 16 positions");
}
