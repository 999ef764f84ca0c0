//! Accepted job files, and the violations of others.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

mod combinations;
mod data;
mod embedded_texts;
mod embedding_sets;
mod hosts;
mod keys;
mod preferences;
mod replaced_tokens;
mod scored_passages;
mod training;
mod values;
mod whole;
mod written_texts;

use std::collections::BTreeSet;
use std::path::Path;

use traind_job_file::{JobFile, Parsed, Violation};

/// A job file with these top-level keys, completed from a minimal one. The keys
/// come first, so that the first line of `keys` is line 1.
fn complete(keys: &str) -> String {
    let minimal = [
        "name: demo",
        "model: {name_or_path: ./bert, task: sequence-classification, num_labels: 3}",
        "data: {train: train.csv, validation: dev.csv}",
        "output_dir: out",
    ];
    let given: BTreeSet<_> = keys.lines().filter_map(|line| line.split(':').next()).collect();
    let missing = minimal.iter().filter(|line| !given.contains(line.split(':').next().unwrap()));
    missing.fold(format!("{}\n", keys.trim_end()), |yaml, line| yaml + line + "\n")
}

fn parse(keys: &str) -> Result<Parsed, Vec<Violation>> {
    JobFile::parse(&complete(keys), Path::new("/base"))
}

fn job(keys: &str) -> JobFile {
    parse(keys).unwrap_or_else(|violations| panic!("{}", lines(&violations))).job
}

fn lines<T: ToString>(problems: &[T]) -> String {
    problems.iter().map(T::to_string).collect::<Vec<_>>().join("\n")
}

/// Parses and compares all that is said: violations, or else warnings.
#[track_caller]
fn check(keys: &str, expect: &str) {
    let said = match parse(keys) {
        Ok(parsed) => lines(&parsed.warnings),
        Err(violations) => lines(&violations),
    };
    let expect: Vec<_> = expect.trim().lines().map(str::trim).collect();
    assert_eq!(said, expect.join("\n"), "for\n{keys}");
}

/// A job of a task, with more keys of the model and more sections.
fn of_task(task: &str, model: &str, more: &str) -> String {
    format!("model: {{name_or_path: ./bert, task: {task}{model}}}\n{more}")
}
