//! Models of GGUF files against transformers: each weight to the bit, and each type of blocks against gguf's own code.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use traind_models::{ModelConfig, Task, gguf, registry, weights};

use crate::fixture::folder_of;

const SHARD_BYTES_MAX: u64 = 20_000;

#[derive(Deserialize)]
struct Expected {
    models: BTreeMap<String, Answers>,
}

/// The arrays that transformers made of a file.
#[derive(Deserialize)]
struct Answers {
    /// SHA-256 of the bytes of each tensor as float32.
    tensors: BTreeMap<String, String>,
    config: Map<String, Value>,
}

fn expected() -> Expected {
    let file = folder_of("gguf").join("expected.json");
    serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn converted_weights_are_those_of_transformers() {
    let models = expected().models;
    assert_eq!(models.len(), 4);
    for (name, answers) in &models {
        let out = tempfile::tempdir().unwrap();
        let file = folder_of("gguf").join(name);
        let converted = gguf::convert(&file, out.path(), SHARD_BYTES_MAX).unwrap();
        let config = ModelConfig::load(out.path(), &Map::new()).unwrap();
        let general = [("num_hidden_layers", "n_layer"), ("num_attention_heads", "n_head")];
        for (key, value) in &answers.config {
            let own = general.iter().find(|(general, _)| general == key).map(|(_, own)| *own);
            let found = config.keys().get(key).or_else(|| config.keys().get(own?));
            assert_eq!(found.unwrap_or(&Value::Null), value, "{name}: {key}");
        }
        let model = registry::build(config, Task::CausalLm).unwrap();
        let loaded = weights::load(out.path(), &model, 0).unwrap();
        assert_eq!(loaded.report.loaded.len(), model.parameters().len(), "{:?}", loaded.report);
        let found = model.parameters().iter().zip(&loaded.arrays);
        let found =
            found.map(|(spec, array)| (spec.name.clone(), hex(&Sha256::digest(array.bytes()))));
        let found: BTreeMap<String, String> = found.collect();
        assert_eq!(found, answers.tensors, "{name}");
        assert_eq!(converted.tokens as u64, answers.config["vocab_size"].as_u64().unwrap());
    }
}

/// The file of Llama with one byte changed, cut, or lengthened numbers in its header.
#[test]
fn damaged_files_are_refused_with_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("bad.gguf");
    let good = std::fs::read(folder_of("gguf").join("llama-words.gguf")).unwrap();
    let convert = |bytes: &[u8]| {
        std::fs::write(&path, bytes).unwrap();
        let out = tempfile::tempdir().unwrap();
        gguf::convert(&path, out.path(), u64::MAX).map(drop)
    };
    let check = |bytes: &[u8], expect: &str| {
        let error = convert(bytes).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {expect}", path.display()));
    };
    check(b"GGML", "it is no GGUF file");
    check(b"", "it ends within its header, at byte 0");
    let version = [&good[..4], &[9], &good[5..]].concat();
    check(&version, "it is GGUF of version 9, and 2 and 3 are read");
    // The file has a terabyte, and not a byte of it on the disk.
    let sparse = |header: &[u8], expect: &str| {
        std::fs::write(&path, header).unwrap();
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let out = tempfile::tempdir().unwrap();
        let error = gguf::convert(&path, out.path(), u64::MAX).map(drop).unwrap_err().to_string();
        assert_eq!(error, format!("{}: {expect}", path.display()));
    };
    let counts = |tensors: u64, values: u64| {
        [&b"GGUF\x03\0\0\0"[..], &tensors.to_le_bytes(), &values.to_le_bytes()].concat()
    };
    let value = |kind: u32, rest: &[u8]| {
        let key = [&1_u64.to_le_bytes()[..], b"k"].concat();
        [&counts(0, 1)[..], &key, &kind.to_le_bytes(), rest].concat()
    };
    let of_bytes = [&0_u32.to_le_bytes()[..], &(1_u64 << 39).to_le_bytes()].concat();
    sparse(&counts(1 << 30, 0), "its header has more than 4194304 items");
    sparse(&counts(0, 1 << 30), "its header has more than 4194304 items");
    sparse(&value(9, &of_bytes), "its header has more than 4194304 items");
    sparse(&value(8, &(1_u64 << 39).to_le_bytes()), "its header is longer than 256 MiB");
    for length in (0..good.len()).step_by(97) {
        assert!(convert(&good[..length]).is_err(), "{length}");
    }
    for place in (8..3_000).step_by(7) {
        let mut bytes = good.clone();
        bytes[place] ^= 0x81;
        // A changed letter of a token's text is no damage that can be noticed.
        let _ = convert(&bytes);
    }
}

#[test]
fn models_without_a_counterpart_are_named() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/gguf/llama-words.gguf");
    let good = std::fs::read(&path).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.gguf");
    let text = |bytes: &[u8], from: &str, to: &str| {
        let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
        [&bytes[..at], to.as_bytes(), &bytes[at + from.len()..]].concat()
    };
    let at = "general.architecture";
    let start = good.windows(at.len()).position(|window| window == at.as_bytes()).unwrap();
    let changed = [&good[..start], &text(&good[start..], "llama", "rwkv6")].concat();
    std::fs::write(&other, changed).unwrap();
    let error = gguf::convert(&other, folder.path(), u64::MAX).unwrap_err().to_string();
    let expect =
        "general.architecture is rwkv6; llama, mistral, qwen2, qwen3 and gpt2 are converted";
    assert!(error.ends_with(expect), "{error}");
}
