//! The packages that the library needs: none of those that know jobs.

#![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of each package of the workspace, by the lines of its manifest.
fn folder(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let manifest = fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let line = format!("{name} = {{ path = \"");
    let (_, rest) = manifest.split_once(&line).unwrap();
    root.join(rest.split('"').next().unwrap())
}

/// The packages of the workspace that a manifest names in sections which `counts`.
fn named(manifest: &str, counts: impl Fn(&str) -> bool) -> Vec<String> {
    let (mut names, mut is_in) = (Vec::new(), false);
    for line in manifest.lines() {
        if line.starts_with('[') {
            is_in = counts(line);
        }
        let name = line.split(['.', ' ', '=']).next().unwrap();
        if is_in && name.starts_with("traind-") {
            names.push(name.to_owned());
        }
    }
    names
}

#[test]
fn the_trainer_needs_no_package_that_knows_jobs() {
    let mut found = BTreeSet::new();
    let mut waiting = vec!["traind-trainer".to_owned()];
    while let Some(name) = waiting.pop() {
        let manifest = fs::read_to_string(folder(&name).join("Cargo.toml")).unwrap();
        let is_own = name == "traind-trainer";
        let counts = |section: &str| match section.trim_matches(['[', ']']) {
            "dev-dependencies" => is_own,
            section => section.ends_with("dependencies"),
        };
        waiting.extend(named(&manifest, counts).into_iter().filter(|it| !found.contains(it)));
        found.insert(name);
    }
    assert!(found.contains("traind-models") && found.contains("traind-loader"), "{found:?}");
    for name in ["traind-job-file", "traind-proto", "traind-rendezvous", "traind-runner", "traind"]
    {
        assert!(!found.contains(name), "{found:?}");
    }
}
