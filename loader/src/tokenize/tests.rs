//! Settings that lie in the tokenizer's folder, and files that are no tokenizer. That the ids are
//! right is tested against Python in `tests/token_parity.rs`.

use std::path::{Path, PathBuf};

use super::*;
use crate::error::Result;
use crate::testing::DataFolder;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/token_parity").join(name)
}

fn open(folder: &Path, max_length: Option<u32>) -> Result<HuggingFaceTokenizer> {
    HuggingFaceTokenizer::open(folder, &TokenizerOptions { max_length })
}

#[test]
fn truncation_and_padding_in_the_file_are_overridden() {
    let json = std::fs::read_to_string(fixture("wordpiece/tokenizer.json")).unwrap();
    assert!(json.contains(r#""strategy":{"Fixed":6}"#) && json.contains(r#""max_length":6"#));
    let check = |max_length, text: &str, expect, truncated| {
        let encoded = open(&fixture("wordpiece"), max_length).unwrap().encode(text, None).unwrap();
        assert_eq!((encoded.input_ids.len(), encoded.truncated), (expect, truncated));
    };
    check(None, "the", 3, false);
    check(None, &"the ".repeat(100), 102, false);
    check(None, &"the ".repeat(600), 512, true);
    check(Some(20), &"the ".repeat(100), 20, true);
}

#[test]
fn the_settings_of_the_folder_are_read() {
    let wordpiece = open(&fixture("wordpiece"), None).unwrap();
    assert_eq!((wordpiece.max_length(), wordpiece.pad_token_id()), (Some(512), Some(0)));
    let bpe = open(&fixture("byte_level_bpe"), None).unwrap();
    assert_eq!((bpe.max_length(), bpe.pad_token_id()), (None, Some(1)));
    assert!(bpe.vocab_size() > 261);
    assert_ne!(bpe.fingerprint(), wordpiece.fingerprint());
    assert_ne!(
        bpe.fingerprint(),
        open(&fixture("byte_level_bpe"), Some(32)).unwrap().fingerprint()
    );
}

#[test]
fn without_settings_the_pad_token_is_that_of_the_file() {
    let folder = DataFolder::new();
    let json = std::fs::read(fixture("wordpiece/tokenizer.json")).unwrap();
    folder.write("tokenizer.json", json);
    let tokenizer = open(&folder.path(""), None).unwrap();
    assert_eq!((tokenizer.max_length(), tokenizer.pad_token_id()), (None, Some(0)));
}

#[test]
fn the_largest_id_that_a_file_can_name_takes_neither_memory_nor_a_panic() {
    let folder = DataFolder::new();
    let json = std::fs::read(fixture("wordpiece/tokenizer.json")).unwrap();
    let mut json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    json["model"]["vocab"]["huge"] = u32::MAX.into();
    folder.write("tokenizer.json", json.to_string());
    let tokenizer = open(&folder.path(""), None).unwrap();
    assert_eq!(tokenizer.vocab_size(), u32::MAX);
    assert_eq!(tokenizer.encode("huge", None).unwrap().input_ids[1], u32::MAX);
}

/// A sparse file has a terabyte, and takes no room on a disk.
#[test]
fn sparse_files_of_a_tokenizer_are_not_read() {
    for name in ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "vocab.txt"]
    {
        let folder = DataFolder::new();
        let json = std::fs::read(fixture("wordpiece/tokenizer.json")).unwrap();
        if name != "vocab.txt" {
            folder.write("tokenizer.json", json);
        }
        folder.write("config.json", r#"{"model_type": "bert"}"#);
        let path = folder.write(name, "");
        std::fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        let error = open(&folder.path(""), None).map(drop).unwrap_err().to_string();
        assert!(error.contains(name) && error.contains("268435456 bytes"), "{error}");
    }
}

#[test]
fn truncation_side_is_honoured() {
    let folder = DataFolder::new();
    folder.write("tokenizer.json", std::fs::read(fixture("wordpiece/tokenizer.json")).unwrap());
    folder.write("tokenizer_config.json", r#"{"truncation_side": "left"}"#);
    let left = open(&folder.path(""), Some(5)).unwrap().encode("the a an and of to", None).unwrap();
    let right = open(&fixture("wordpiece"), Some(5)).unwrap().encode("and of to", None).unwrap();
    assert_eq!(left.input_ids, right.input_ids);
}

#[test]
fn what_is_not_a_tokenizer_is_named() {
    let check = |files: &[(&str, &str)], max_length, expect: &str| {
        let folder = DataFolder::new();
        files.iter().for_each(|(name, content)| drop(folder.write(name, content)));
        let error = open(&folder.path(""), max_length).err().unwrap();
        let shown = folder.shown(&error);
        assert!(shown.starts_with(expect), "{shown:?} for {expect:?}");
    };
    check(&[], None, "tokenizer.json: cannot read the tokenizer: there is none, nor a vocab.txt");
    check(
        &[("spiece.model", "")],
        None,
        "tokenizer.json: cannot read the tokenizer: there is none, and SentencePiece models",
    );
    check(
        &[("vocab.json", "[]"), ("merges.txt", "")],
        None,
        "vocab.json: not a tokenizer: invalid type: sequence, expected a map",
    );
    check(
        &[("vocab.json", r#"{"a": 0, "b": 1}"#), ("merges.txt", "a")],
        None,
        "vocab.json: not a tokenizer: ",
    );
    check(
        &[("tokenizer.json", "not json")],
        None,
        "tokenizer.json: not a tokenizer: expected ident at line 1",
    );
    check(&[("tokenizer.json", "")], None, "tokenizer.json: not a tokenizer: EOF while parsing");
    check(&[("tokenizer.json", "{}")], None, "tokenizer.json: not a tokenizer: ");
    let good = std::fs::read_to_string(fixture("wordpiece/tokenizer.json")).unwrap();
    let config = ("tokenizer_config.json", "{");
    check(
        &[("tokenizer.json", &good), config],
        None,
        "tokenizer_config.json: not a tokenizer: EOF while parsing",
    );
    check(
        &[("tokenizer.json", &good)],
        Some(3),
        "data.max_length: 3 leaves no room beside 3 special tokens",
    );
}

#[test]
fn a_flipped_tokenizer_never_panics() {
    let folder = DataFolder::new();
    let good = std::fs::read(fixture("wordpiece/tokenizer.json")).unwrap();
    let mut refused = 0;
    // The fuzz test flips the others.
    let places = (0..good.len()).step_by(7);
    let count = places.len();
    for place in places {
        let mut bad = good.clone();
        bad[place] ^= 1;
        folder.write("tokenizer.json", bad);
        match open(&folder.path(""), Some(16)) {
            Ok(tokenizer) => drop(tokenizer.encode("the unbelievable café 日本", Some("😀 a b"))),
            Err(error) => {
                refused += 1;
                assert!(error.file().is_some(), "{error}");
            }
        }
    }
    assert!(refused > count / 10, "{refused} of {count} flips were noticed");
}

/// The ids are those that `add_tokens` and then `add_special_tokens` of transformers give.
#[test]
fn tokens_are_added_behind_the_vocabulary() {
    let folder = tempfile::tempdir().unwrap();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/token_parity/wordpiece");
    std::fs::copy(from.join("tokenizer.json"), folder.path().join("tokenizer.json")).unwrap();
    let settings = r#"{"pad_token": "[UNK]", "added_tokens_decoder": {}}"#;
    std::fs::write(folder.path().join("tokenizer_config.json"), settings).unwrap();
    std::fs::write(folder.path().join("special_tokens_map.json"), r#"{"pad_token": "[UNK]"}"#)
        .unwrap();
    let before = HuggingFaceTokenizer::open(folder.path(), &TokenizerOptions::default()).unwrap();
    let size = before.vocab_size();
    let tokens = NewTokens {
        plain: vec!["<sql>".to_owned(), "the".to_owned()],
        roles: vec![
            ("pad_token".to_owned(), "<pad>".to_owned()),
            ("sep_token".to_owned(), "[SEP]".to_owned()),
        ],
        special: vec!["<a>".to_owned()],
    };
    let extended = ExtendedTokenizer::new(folder.path(), &tokens).unwrap();
    let sep = before.token_id("[SEP]").unwrap();
    assert_eq!(extended.vocab_size, size + 3);
    let roles = [("pad_token".to_owned(), size + 1), ("sep_token".to_owned(), sep)];
    assert_eq!(extended.roles, roles);
    for (name, content) in extended.files() {
        std::fs::write(folder.path().join(name), content).unwrap();
    }
    let after = HuggingFaceTokenizer::open(folder.path(), &TokenizerOptions::default()).unwrap();
    assert_eq!((after.vocab_size(), after.pad_token_id()), (size + 3, Some(size + 1)));
    let encoded = after.encode("the<sql><a> [SEP]", None).unwrap();
    let the = before.encode("the", None).unwrap().input_ids[1];
    assert_eq!(encoded.input_ids[1..5], [the, size, size + 2, sep]);
    assert!(after.is_special_token(size + 2) && !after.is_special_token(size));
}

#[test]
fn tokens_are_added_to_a_tokenizer_json_alone() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("vocab.txt"), "[UNK]\nthe\n").unwrap();
    let tokens = NewTokens { plain: vec!["<a>".to_owned()], ..NewTokens::default() };
    let Err(error) = ExtendedTokenizer::new(folder.path(), &tokens) else { panic!() };
    assert!(error.to_string().contains("save the tokenizer with transformers"), "{error}");
}
