//! Configs of adapters that change the computation in ways that traind does not support.

use serde_json::{Map, Value, json};
use traind_models::tuning::load_lora;

use crate::fixture::folder_of;

/// The config of a fixture's adapters with `key` set to `value`, and the error of reading it.
fn error_of(key: &str, value: &Value) -> Option<String> {
    let from = folder_of("lora-bert");
    let text = std::fs::read(from.join("adapter_config.json")).unwrap();
    let mut keys: Map<String, Value> = serde_json::from_slice(&text).unwrap();
    keys.insert(key.to_owned(), value.clone());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("adapter_config.json");
    std::fs::write(&file, Value::Object(keys).to_string()).unwrap();
    let error = load_lora(folder.path()).err()?.to_string();
    let named = error.strip_prefix(&format!("{}: {key}: ", file.display()));
    Some(named.unwrap_or_else(|| panic!("{error}")).to_owned())
}

#[track_caller]
fn check(key: &str, value: Value, expect: &str) {
    let error = error_of(key, &value).unwrap_or_else(|| panic!("{key}: {value} is accepted"));
    assert!(error.starts_with(expect), "{error}");
}

#[test]
fn initializations_that_change_the_base_are_refused() {
    for name in ["pissa", "pissa_niter_16", "olora", "OLoRA", "corda", "loftq", "lora_ga", "mica"] {
        let expect = format!("{} adapters belong to a changed base", name.to_lowercase());
        check("init_lora_weights", json!(name), &expect);
    }
    for value in [json!(true), json!(false), json!("gaussian"), json!("orthogonal"), json!("eva")] {
        assert_eq!(error_of("init_lora_weights", &value), None);
    }
}

#[test]
fn keys_that_are_not_understood_are_refused() {
    check("peft_type", json!("IA3"), "only LORA is supported, found IA3");
    check("use_new_trick", json!(true), "not known here, and it may change");
    check(
        "rank_pattern",
        json!({"query": 2}),
        r#"{"query":2} is not supported: train the model merged"#,
    );
    check("lora_bias", json!(true), "true is not supported");
    check("alora_invocation_tokens", json!([1]), "[1] is not supported");
    check("target_modules", json!(".*query"), r#"".*query" is a regular expression"#);
    for (key, value) in [
        ("rank_pattern", json!({})),
        ("lora_bias", json!(false)),
        ("eva_config", json!({"rho": 2.0})),
        ("megatron_core", json!("megatron.core")),
    ] {
        assert_eq!(error_of(key, &value), None, "{key}");
    }
}

#[test]
fn pickled_adapters_are_named_with_the_way_out() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder_of("lora-bert").join("adapter_config.json");
    std::fs::copy(config, folder.path().join("adapter_config.json")).unwrap();
    std::fs::write(folder.path().join("adapter_model.bin"), "").unwrap();
    let error = load_lora(folder.path()).unwrap_err().to_string();
    assert!(
        error.contains("adapter_model.bin: pickled adapters are not read; this writes"),
        "{error}"
    );
}
