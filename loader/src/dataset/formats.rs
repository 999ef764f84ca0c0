//! Tokenized sets of all kept versions of the cache. This version writes its own to the bit, so that a change of the
//! format needs another [`FORMAT_VERSION`], and a set of it, which `TRAIND_WRITE_FIXTURES=1` writes. Those of other
//! versions are neither read nor an obstacle.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::cache::{FOLDER, FORMAT_VERSION};
use super::*;
use crate::labels::{LabelKind, LabelSpec};
use crate::tasks::SequenceClassification;
use crate::testing::{DataFolder, WordTokenizer};

const MANIFEST: &str = "manifest";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/token_cache")
}

fn tokenizer() -> WordTokenizer {
    WordTokenizer::reading(|word| word.len() as u32)
}

/// Pairs of texts with labels.
fn options(data: &DataFolder) -> DatasetOptions {
    let label = LabelSpec {
        column: "label".to_owned(),
        kind: LabelKind::Infer { num_labels: None },
        weight: None,
        ignored: Vec::new(),
    };
    let task = SequenceClassification {
        text: "one".to_owned(),
        text_pair: Some("two".to_owned()),
        label: Some(label),
    };
    let rows = "one,two,label\na bb,ccc,1\nd,ee f,0\n";
    DatasetOptions {
        files: [data.write("rows.csv", rows)].into_iter().collect(),
        task: TaskSpec::SequenceClassification(task),
        token_limits: TokenLimits::default(),
        cache_dir: Some(data.path("cache")),
    }
}

/// The only entry of a cache.
fn entry(cache: &Path) -> PathBuf {
    let entries = fs::read_dir(cache.join(FOLDER)).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<PathBuf> = entries.filter(|path| path.join(MANIFEST).exists()).collect();
    assert_eq!(found.len(), 1, "{found:?}");
    found.remove(0)
}

/// The files of an entry. The manifest is without its checksum and the paths of the data, which a test does not choose.
fn content(entry: &Path) -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(entry).unwrap().map(|file| {
        let path = file.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        let bytes = fs::read(&path).unwrap();
        let bytes = if name == MANIFEST { without_paths(&bytes) } else { bytes };
        (name, bytes)
    });
    files.collect()
}

fn without_paths(manifest: &[u8]) -> Vec<u8> {
    let (_checksum, json) = std::str::from_utf8(manifest).unwrap().split_once('\n').unwrap();
    let mut json: Value = serde_json::from_str(json).unwrap();
    for file in json["about"]["files"].as_array_mut().unwrap() {
        file["path"] = Value::Null;
    }
    serde_json::to_vec_pretty(&json).unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap() {
        let path = file.unwrap().path();
        fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn sets_of_this_version_are_as_it_wrote_them_and_others_are_made_anew() {
    let data = DataFolder::new();
    let options = options(&data);
    let made = prepare(&options, &tokenizer()).unwrap();
    let own = entry(&data.path("cache"));
    let current = folder().join(FORMAT_VERSION.to_string());
    if std::env::var_os("TRAIND_WRITE_FIXTURES").is_some() && !current.exists() {
        copy(&own, &current.join(own.file_name().unwrap()));
    }
    for version in fs::read_dir(folder()).unwrap() {
        let version = version.unwrap().path();
        let kept = fs::read_dir(&version).unwrap().next().unwrap().unwrap().path();
        let is_current = version == current;
        // Another option of tasks gives sets other keys, and their files the same format.
        let key = if is_current { &own } else { &kept }.file_name().unwrap();
        let is_same = !is_current || content(&kept) == content(&own);
        assert!(
            is_same,
            "the files changed: raise FORMAT_VERSION, and set TRAIND_WRITE_FIXTURES=1"
        );
        let cache = data.path(&format!("cache-{}", version.file_name().unwrap().display()));
        copy(&kept, &cache.join(FOLDER).join(key));
        let options = DatasetOptions { cache_dir: Some(cache), ..options.clone() };
        let found = prepare(&options, &tokenizer()).unwrap();
        assert_eq!(found.cache_hit, is_current, "{}", version.display());
        assert_eq!(found.warnings, [""; 0]);
        for row in 0..made.set.len() {
            assert_eq!(found.set.input_ids(row).unwrap(), made.set.input_ids(row).unwrap());
        }
        assert_eq!(found.set.labels(), made.set.labels());
    }
    assert!(current.exists(), "{} is missing: set TRAIND_WRITE_FIXTURES=1", current.display());
}
