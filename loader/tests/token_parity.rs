//! Token ids equal those of Python's `tokenizers`: on texts written for this (committed with
//! their ids) and on this machine's package descriptions (which are not ours to commit).

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;
use serde_json::Value as Json;
use tempfile::TempDir;
use traind_loader::{Encoded, HuggingFaceTokenizer, TextTokenizer, TokenizerOptions};

const DESCRIPTIONS: usize = 1_000;
/// Short enough that some descriptions are cut, long enough that most are not.
const MAX_LENGTH: u32 = 16;

#[derive(Deserialize)]
struct Case {
    text: String,
    text_pair: Option<String>,
    max_length: u32,
    wordpiece: Expected,
    byte_level_bpe: Expected,
}

#[derive(Deserialize)]
struct Description {
    text: String,
    text_pair: Option<String>,
    expected: Expected,
}

#[derive(Deserialize)]
struct Expected {
    input_ids: Vec<u32>,
    token_type_ids: Vec<u8>,
    truncated: bool,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/token_parity")
}

fn open(folder: &Path, max_length: u32) -> HuggingFaceTokenizer {
    HuggingFaceTokenizer::open(folder, &TokenizerOptions { max_length: Some(max_length) })
        .expect("open the tokenizer")
}

#[track_caller]
fn check(tokenizer: &dyn TextTokenizer, text: &str, pair: Option<&str>, expected: &Expected) {
    let Expected { input_ids, token_type_ids, truncated } = expected;
    let expected = Encoded {
        input_ids: input_ids.clone(),
        token_type_ids: token_type_ids.clone(),
        truncated: *truncated,
    };
    assert_eq!(tokenizer.encode(text, pair), Ok(expected), "{text:?} and {pair:?}");
}

#[test]
fn texts_of_all_kinds() {
    let cases = std::fs::read_to_string(fixtures().join("cases.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&cases).unwrap();
    assert!(cases.len() >= 60);
    for Case { text, text_pair, max_length, wordpiece, byte_level_bpe } in &cases {
        for (name, expected) in [("wordpiece", wordpiece), ("byte_level_bpe", byte_level_bpe)] {
            let tokenizer = open(&fixtures().join(name), *max_length);
            check(&tokenizer, text, text_pair.as_deref(), expected);
        }
    }
}

/// The files of older folders that have no `tokenizer.json`.
#[test]
fn vocabularies_give_the_same_ids() {
    let cases = std::fs::read_to_string(fixtures().join("cases.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&cases).unwrap();
    let folders = [wordpiece_vocabulary(&fixtures().join("wordpiece")), byte_level_vocabulary()];
    for Case { text, text_pair, max_length, wordpiece, byte_level_bpe } in &cases {
        for (folder, expected) in folders.iter().zip([wordpiece, byte_level_bpe]) {
            let tokenizer = open(folder.path(), *max_length);
            check(&tokenizer, text, text_pair.as_deref(), expected);
        }
    }
    let Some(model) = pretrained_model() else { return };
    let (whole, folder) = (open(&model, 32), wordpiece_vocabulary(&model));
    let vocabulary = open(folder.path(), 32);
    for Case { text, text_pair, .. } in &cases {
        let pair = text_pair.as_deref();
        assert_eq!(vocabulary.encode(text, pair), whole.encode(text, pair), "{text:?}");
    }
}

fn wordpiece_vocabulary(model: &Path) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut tokens: Vec<(String, u64)> = vocabulary(model).into_iter().collect();
    tokens.sort_by_key(|(_, id)| *id);
    let lines: String = tokens.iter().map(|(token, _)| format!("{token}\n")).collect();
    std::fs::write(folder.path().join("vocab.txt"), lines).unwrap();
    let settings = "tokenizer_config.json";
    std::fs::copy(model.join(settings), folder.path().join(settings)).unwrap();
    folder
}

fn byte_level_vocabulary() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let model = fixtures().join("byte_level_bpe");
    let write = |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
    write("vocab.json", serde_json::to_string(&vocabulary(&model)).unwrap());
    let json = tokenizer_json(&model);
    let merge = |merge: &Json| match merge {
        Json::Array(pair) => {
            pair.iter().filter_map(Json::as_str).collect::<Vec<_>>().join(" ") + "\n"
        }
        line => format!("{}\n", line.as_str().unwrap()),
    };
    let merges: String = json["model"]["merges"].as_array().unwrap().iter().map(merge).collect();
    write("merges.txt", format!("#version: 0.2\n{merges}"));
    // A mask that takes no space with it, as that of the fixture.
    let mask = r#"{"mask_token": {"content": "<mask>", "lstrip": false}}"#;
    write("special_tokens_map.json", mask.to_owned());
    write("config.json", r#"{"model_type": "roberta"}"#.to_owned());
    folder
}

fn vocabulary(model: &Path) -> BTreeMap<String, u64> {
    serde_json::from_value(tokenizer_json(model)["model"]["vocab"].clone()).unwrap()
}

fn tokenizer_json(model: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(model.join("tokenizer.json")).unwrap()).unwrap()
}

#[test]
fn a_thousand_package_descriptions() {
    let mut folders = vec![fixtures().join("wordpiece"), fixtures().join("byte_level_bpe")];
    folders.extend(pretrained_model());
    for folder in folders {
        let descriptions = match descriptions(&folder) {
            Ok(descriptions) => descriptions,
            Err(reason) => return println!("skipped: {reason}"),
        };
        assert!(descriptions.len() >= DESCRIPTIONS / 2, "{}", descriptions.len());
        let tokenizer = open(&folder, MAX_LENGTH);
        for Description { text, text_pair, expected } in &descriptions {
            check(&tokenizer, text, text_pair.as_deref(), expected);
        }
        println!("{}: {} descriptions equal", folder.display(), descriptions.len());
    }
}

/// The ids by Python; the error says why they cannot be computed here.
fn descriptions(folder: &Path) -> Result<Vec<Description>, String> {
    let python = std::env::var("TRAIND_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scripts/fixtures/token_parity.py");
    succeeds(Command::new(&python).args(["-c", "import tokenizers"]))?;
    succeeds(Command::new("apt-cache").args(["show", "apt"]))?;
    let output = Command::new(python)
        .arg(script)
        .arg("debian")
        .arg(folder.join("tokenizer.json"))
        .args([MAX_LENGTH.to_string(), DESCRIPTIONS.to_string()])
        .output()
        .map_err(|error| error.to_string())?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8_lossy(&output.stdout);
    match lines.lines().count() {
        0..DESCRIPTIONS => Err("apt-cache knows too few packages".to_owned()),
        _ => lines
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|error| error.to_string()))
            .collect(),
    }
}

fn succeeds(command: &mut Command) -> Result<(), String> {
    match command.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(_) => Err(format!("{command:?} fails")),
        Err(error) => Err(format!("{command:?}: {error}")),
    }
}

/// A real model's folder: the one named by `TRAIND_TEST_MODEL`, or what the quickstart fetched.
fn pretrained_model() -> Option<PathBuf> {
    let named = std::env::var_os("TRAIND_TEST_MODEL").map(PathBuf::from);
    let fetched = || {
        let cache = std::env::var_os("TRAIND_CACHE_DIR").map(PathBuf::from);
        let cache =
            cache.or_else(|| Some(PathBuf::from(std::env::var_os("HOME")?).join(".cache/traind")));
        let folders = std::fs::read_dir(cache?.join("models")).ok()?;
        folders
            .filter_map(|entry| Some(entry.ok()?.path()))
            .find(|path| path.join("tokenizer.json").exists())
    };
    named.or_else(fetched)
}
