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

/// The one file among the declarations that reads keys: the methods of a job.
const METHODS: &str = "schema/mod.rs";

/// Sections, or keys of them, that one file reads under another name, by taking the section apart, or by the key's
/// text.
const READ_UNDER_OTHER_NAMES: [(&str, &str); 9] = [
    ("model.add_special_tokens", "proto/job-file/src/new_tokens.rs"),
    ("model.add_tokens", "daemon/runner/src/model/vocabulary.rs"),
    ("model.max_shard_size", "daemon/runner/src/model/mod.rs"),
    ("data.mlm_probability", "daemon/runner/src/tasks/masked_lm.rs"),
    ("data.prompt_template", "daemon/runner/src/tasks/layouts.rs"),
    ("train.generation_config", "daemon/runner/src/decoding/settings.rs"),
    ("embedding", "daemon/runner/src/recipe/embedding.rs"),
    ("reranker", "daemon/runner/src/recipe/reranker.rs"),
    ("replaced_token_detection", "daemon/runner/src/recipe/replaced_tokens.rs"),
];

/// The files and folders that messages name.
const USE: &str = "daemon/runner/src/recipe.rs";
const SUPPORTED: &str = "proto/job-file/src/supported.rs";
const ARGUMENTS: &str = "proto/job-file/src/training_arguments/table.rs";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns true if `text` accesses the field `key` of a value that is named `section`.
fn accesses(text: &str, section: &str, key: &str) -> bool {
    let is_word = |letter: char| letter.is_alphanumeric() || letter == '_';
    text.match_indices(section).any(|(at, _)| {
        let rest = text[at + section.len()..].trim_start().strip_prefix('.').map(str::trim_start);
        let rest = rest.and_then(|rest| rest.strip_prefix(key));
        !text[..at].ends_with(is_word) && rest.is_some_and(|rest| !rest.starts_with(is_word))
    })
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
    let mut files = Vec::new();
    READERS.iter().for_each(|folder| sources(&root().join(folder), &mut files));
    let is_declaration = |file: &PathBuf| file.starts_with(root().join(DECLARATIONS));
    files.retain(|file| file.ends_with(METHODS) || !is_declaration(file));
    let texts: Vec<String> = files.iter().map(|file| fs::read_to_string(file).unwrap()).collect();
    for field in fields() {
        let is_read = match field.path.rsplit_once('.') {
            Some((sections, key)) => {
                let section = sections.rsplit('.').next().unwrap();
                texts.iter().any(|text| accesses(text, section, key))
                    || is_read_elsewhere(&field.path)
            }
            None => texts.iter().any(|text| reads(text, &field.path)),
        };
        assert!(
            is_read,
            "nothing reads the key {} as a field of its section: use it where it takes effect, for most keys of a \
             training step in {USE}, or refuse it in {SUPPORTED}; where the section has another name, add the file \
             to READ_UNDER_OTHER_NAMES",
            field.path
        );
    }
}

/// Returns true if the file that reads a key under another name does so.
fn is_read_elsewhere(path: &str) -> bool {
    let is_of = |name: &str| {
        path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    };
    let found = READ_UNDER_OTHER_NAMES.iter().find(|(name, _)| is_of(name));
    found.is_some_and(|(_, file)| {
        let text = fs::read_to_string(root().join(file)).unwrap();
        let key = path.rsplit('.').next().unwrap();
        reads(&text, key) || text.contains(&format!("\"{key}\""))
    })
}

#[test]
fn no_key_is_also_an_argument_that_is_none() {
    for field in fields() {
        let Some(key) = field.path.strip_prefix("train.") else { continue };
        assert!(
            training_argument(key).is_none(),
            "{} is a key now: remove `{key}` from {ARGUMENTS}",
            field.path
        );
    }
}

#[test]
fn the_paths_of_messages_exist() {
    let others = READ_UNDER_OTHER_NAMES.iter().map(|(_, file)| *file);
    for path in [USE, SUPPORTED, ARGUMENTS, DECLARATIONS].into_iter().chain(others).chain(READERS) {
        assert!(root().join(path).exists(), "{path} is no more: name its successor in this test");
    }
}

#[test]
fn an_access_names_the_section_and_the_whole_key() {
    let text = "let seed = job.train\n    .seed; restrain.seeds; data.train_seed";
    assert!(accesses(text, "train", "seed") && accesses(text, "restrain", "seeds"));
    for (section, key) in [("train", "seeds"), ("train", "see"), ("data", "seed"), ("job", "seed")]
    {
        assert!(!accesses(text, section, key), "{section}.{key}");
    }
}
