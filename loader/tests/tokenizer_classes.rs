//! Token ids equal those of `AutoTokenizer` for each class of transformers that makes its tokenizer anew, under
//! settings that change what it makes.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value as Json;
use tempfile::TempDir;
use traind_loader::{HuggingFaceTokenizer, PaddingSide, TextTokenizer, TokenizerOptions};

#[derive(Deserialize)]
struct Fixture {
    texts: Vec<String>,
    pairs: Vec<(String, String)>,
    /// Texts as lists of words.
    split: Vec<Vec<String>>,
    cut_length: u32,
    cases: Vec<Case>,
}

/// A folder and the answers of its tokenizer in Python.
#[derive(Deserialize)]
struct Case {
    name: String,
    vocabulary: String,
    /// Whether the folder has the vocabulary in the files of before `tokenizer.json`.
    only_vocabulary: bool,
    files: BTreeMap<String, Json>,
    /// Parts of `tokenizer.json` that are not those of the vocabulary.
    edits: BTreeMap<String, Json>,
    ids: Vec<Vec<u32>>,
    pairs: Vec<Vec<u32>>,
    /// The ids of the lists of words, as `run_ner` makes them.
    words: Vec<Vec<u32>>,
    /// The ids of texts that are cut to `cut_length`.
    cut: Vec<Vec<u32>>,
    /// The place of each token in its text.
    offsets: Vec<Vec<(u32, u32)>>,
    decoded: Vec<String>,
    /// `get_special_tokens_mask` of the ids.
    special: Vec<Vec<u8>>,
    pad_token_id: Option<u32>,
    padding_side: PaddingSide,
    length: u32,
    languages: Option<(String, String)>,
    #[serde(default)]
    sources: Vec<Vec<u32>>,
    #[serde(default)]
    targets: Vec<Vec<u32>>,
}

/// The folder of the cases: the committed ones, or random ones of `scripts/fixtures/tokenizer_classes.py`.
fn fixtures() -> PathBuf {
    match std::env::var_os("TRAIND_TOKENIZER_CASES") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/tokenizer_classes"),
    }
}

fn fixture() -> Fixture {
    serde_json::from_slice(&std::fs::read(fixtures().join("cases.json")).unwrap()).unwrap()
}

impl Case {
    fn folder(&self) -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, text: String| std::fs::write(folder.path().join(name), text).unwrap();
        for (name, keys) in &self.files {
            write(name, keys.to_string());
        }
        let file = fixtures().join(format!("vocabularies/{}.json", self.vocabulary));
        let mut content: serde_json::Map<String, Json> =
            serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        content.extend(self.edits.clone());
        if !self.only_vocabulary {
            write("tokenizer.json", Json::Object(content).to_string());
            return folder;
        }
        let model = content["model"].clone();
        if model["type"] == "WordPiece" {
            let ids: BTreeMap<String, u32> =
                serde_json::from_value(model["vocab"].clone()).unwrap();
            let mut tokens: Vec<_> = ids.into_iter().map(|(token, id)| (id, token)).collect();
            tokens.sort();
            write("vocab.txt", tokens.iter().map(|(_, token)| format!("{token}\n")).collect());
            return folder;
        }
        let merges: Vec<(String, String)> =
            serde_json::from_value(model["merges"].clone()).unwrap();
        let merges: String =
            merges.iter().map(|(left, right)| format!("{left} {right}\n")).collect();
        write("vocab.json", model["vocab"].to_string());
        write("merges.txt", format!("#version: 0.2\n{merges}"));
        folder
    }

    fn open(&self) -> traind_loader::Result<HuggingFaceTokenizer> {
        self.open_up_to(None)
    }

    fn open_up_to(&self, max_length: Option<u32>) -> traind_loader::Result<HuggingFaceTokenizer> {
        HuggingFaceTokenizer::open(self.folder().path(), &TokenizerOptions { max_length })
    }

    /// The first way in which the tokenizer is not that of transformers.
    fn difference(&self, fixture: &Fixture) -> Option<String> {
        let tokenizer = match self.open() {
            Ok(tokenizer) => tokenizer,
            Err(error) => return Some(error.to_string()),
        };
        let sides = (tokenizer.padding_side(), tokenizer.vocab_size(), tokenizer.pad_token_id());
        let expect = (self.padding_side, self.length, self.pad_token_id);
        if sides != expect {
            return Some(format!("side, tokens and padding are {sides:?}, not {expect:?}"));
        }
        let ids = fixture.texts.iter().zip(&self.ids).map(|(text, expect)| {
            let found = tokenizer.encode_text(text, false).unwrap().encoded.input_ids;
            (found != *expect).then(|| format!("{text:?} is {found:?}, not {expect:?}"))
        });
        let offsets = fixture.texts.iter().zip(&self.offsets).map(|(text, expect)| {
            let spans = tokenizer.encode_text(text, false).unwrap().spans;
            let found: Vec<(u32, u32)> = spans.iter().map(|span| (span.start, span.end)).collect();
            (found != *expect).then(|| format!("{text:?} has offsets {found:?}, not {expect:?}"))
        });
        let cut = self.open_up_to(Some(fixture.cut_length)).unwrap();
        let cut = fixture.texts.iter().zip(&self.cut).map(|(text, expect)| {
            let found = cut.encode(text, None).unwrap().input_ids;
            (found != *expect).then(|| format!("{text:?} is cut to {found:?}, not {expect:?}"))
        });
        let words = fixture.split.iter().zip(&self.words).map(|(words, expect)| {
            let texts: Vec<&str> = words.iter().map(String::as_str).collect();
            let found = tokenizer.encode_words(&texts).unwrap().encoded.input_ids;
            (found != *expect).then(|| format!("{words:?} is {found:?}, not {expect:?}"))
        });
        let pairs = fixture.pairs.iter().zip(&self.pairs).map(|((first, second), expect)| {
            let found = tokenizer.encode(first, Some(second)).unwrap().input_ids;
            (found != *expect)
                .then(|| format!("{first:?}, {second:?} is {found:?}, not {expect:?}"))
        });
        let special = self.ids.iter().zip(&self.special).map(|(ids, expect)| {
            let found = ids.iter().map(|id| u8::from(tokenizer.is_special_token(*id)));
            let found: Vec<u8> = found.collect();
            (found != *expect).then(|| format!("special of {ids:?} is {found:?}, not {expect:?}"))
        });
        let decoded = self.ids.iter().zip(&self.decoded).map(|(ids, expect)| {
            let found = tokenizer.decode(ids).unwrap();
            (found != *expect).then(|| format!("decoded {ids:?} is {found:?}, not {expect:?}"))
        });
        let first = ids.chain(words).chain(cut).chain(offsets).chain(pairs);
        first.chain(special).chain(decoded).flatten().next()
    }
}

#[test]
fn every_class_makes_what_auto_tokenizer_makes() {
    let fixture = fixture();
    assert!(fixture.cases.len() >= 40);
    let differences = fixture.cases.iter().filter_map(|case| {
        let difference = case.difference(&fixture)?;
        Some(format!("{} {:?}: {difference}\n", case.name, case.files))
    });
    let differences: Vec<String> = differences.collect();
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.concat());
}

#[track_caller]
fn check(case: &str, texts: &[String], expect: &[Vec<u32>], encode: impl Fn(&str) -> Vec<u32>) {
    assert_eq!(texts.len(), expect.len());
    for (text, expect) in texts.iter().zip(expect) {
        assert_eq!(&encode(text), expect, "{case}: {text:?}");
    }
}

#[test]
fn texts_of_mbart_have_the_languages_of_the_job() {
    let fixture = fixture();
    let with_languages = fixture.cases.iter().filter(|case| case.languages.is_some());
    assert_eq!(with_languages.clone().count(), 2);
    for case in with_languages {
        let (source, target) = case.languages.clone().unwrap();
        let tokenizer = case.open().unwrap().with_languages(&source, &target).unwrap();
        let sources = |text: &str| tokenizer.encode(text, None).unwrap().input_ids;
        check(&case.name, &fixture.texts, &case.sources, sources);
        let targets = |text: &str| tokenizer.encode_target(text, 64).unwrap().input_ids;
        check(&case.name, &fixture.texts, &case.targets, targets);
        let error = case.open().unwrap().with_languages("en", "ro").err().unwrap().to_string();
        let expect = "data.source_lang: the tokenizer has no language en; it has ";
        assert!(error.starts_with(expect), "{error}");
    }
}
