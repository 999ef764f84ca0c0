//! Tokenizers of converted files against transformers'; `traind-models` tests the weights.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::Value;
use traind_loader::{HuggingFaceTokenizer, TextTokenizer, TokenizerOptions};

use super::*;

#[derive(Deserialize)]
struct Expected {
    texts: Vec<String>,
    models: BTreeMap<String, Answers>,
}

#[derive(Deserialize)]
struct Answers {
    ids: Vec<Vec<u32>>,
    special: BTreeMap<String, Option<String>>,
    chat_template: Option<String>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../xla-backend/models/fixtures/gguf")
}

#[test]
fn tokenizers_of_converted_files_are_those_of_transformers() {
    let expected = std::fs::read(fixtures().join("expected.json")).unwrap();
    let Expected { texts, models } = serde_json::from_slice(&expected).unwrap();
    for (name, answers) in models {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("model");
        let file = fixtures().join(&name);
        convert(&ConvertWeightsRequest { file, out: out.clone(), max_shard_bytes: u64::MAX })
            .unwrap();
        let tokenizer = HuggingFaceTokenizer::open(&out, &TokenizerOptions::default()).unwrap();
        for (text, expect) in texts.iter().zip(&answers.ids) {
            let found = tokenizer.encode(text, None).unwrap().input_ids;
            assert_eq!(&found, expect, "{name}: {text:?}");
        }
        let config = std::fs::read(out.join("tokenizer_config.json")).unwrap();
        let config: Value = serde_json::from_slice(&config).unwrap();
        for (key, token) in &answers.special {
            assert_eq!(config[key].as_str(), token.as_deref(), "{name}: {key}");
        }
        let template = std::fs::read_to_string(out.join("chat_template.jinja")).ok();
        assert_eq!(template, answers.chat_template, "{name}");
    }
}

#[test]
fn nothing_is_written_over_or_left_behind() {
    let folder = tempfile::tempdir().unwrap();
    let request = |file: &str, out: &str| ConvertWeightsRequest {
        file: fixtures().join(file),
        out: folder.path().join(out),
        max_shard_bytes: u64::MAX,
    };
    let error = convert(&request("blocks.json", "new")).unwrap_err().to_string();
    assert!(error.ends_with("blocks.json: it is no GGUF file"), "{error}");
    assert!(!folder.path().join("new").exists());
    std::fs::create_dir(folder.path().join("used")).unwrap();
    std::fs::write(folder.path().join("used/notes.txt"), "mine").unwrap();
    let error = convert(&request("gpt2.gguf", "used")).unwrap_err().to_string();
    assert!(error.ends_with("used has files already: name a new folder"), "{error}");
    assert_eq!(std::fs::read_dir(folder.path().join("used")).unwrap().count(), 1);
}
