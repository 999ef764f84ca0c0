//! The places of a job-file key besides its declaration: the code that reads it, and for a name of
//! TrainingArguments no second meaning in the table of those that are not keys.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::fs;
use std::path::{Path, PathBuf};

use traind_job_file::{fields, training_argument};

/// The sources that may read keys.
const READERS: [&str; 4] =
    ["daemon/runner/src", "daemon/src", "proto/folders/src", "proto/job-file/src"];

/// The declarations, which do not count as reading a key.
const DECLARATIONS: &str = "proto/job-file/src/schema";

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => sources(&path, found),
            false if path.extension().is_some_and(|extension| extension == "rs") => {
                found.push(path);
            }
            false => {}
        }
    }
}

/// Returns true if `text` has `key` as an identifier: a field, or a binding of one.
fn reads(text: &str, key: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    let is_name = |letter: char| is_word(letter) || matches!(letter, '"' | '`');
    text.match_indices(key).any(|(at, _)| {
        !text[..at].ends_with(is_name) && !text[at + key.len()..].starts_with(is_word)
    })
}

#[test]
fn every_key_is_read() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = Vec::new();
    READERS.iter().for_each(|folder| sources(&root.join(folder), &mut files));
    files.retain(|file| !file.starts_with(root.join(DECLARATIONS)));
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for field in fields() {
        let key = field.path.rsplit('.').next().unwrap();
        let is_read = texts.iter().any(|text| reads(text, key));
        assert!(
            is_read,
            "nothing reads the key {}: use it where it takes effect, for most keys in \
             daemon/runner/src/run/settings.rs, or refuse it in proto/job-file/src/supported.rs",
            field.path
        );
    }
}

#[test]
fn no_key_is_also_an_argument_that_is_none() {
    for field in fields() {
        let Some(key) = field.path.strip_prefix("train.") else { continue };
        assert!(
            training_argument(key).is_none(),
            "{} is a key now: remove `{key}` from proto/job-file/src/training_arguments/table.rs",
            field.path
        );
    }
}
