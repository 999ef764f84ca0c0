//! The documents name files that exist.

use std::fs;
use std::path::{Path, PathBuf};

const FOLDERS: [&str; 8] =
    ["proto/", "daemon/", "loader/", "xla-backend/", "tests/", "scripts/", "docs/", ".ci/"];

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The Markdown files of the root and of `docs`.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/decisions", "docs/examples"];
    let entries =
        folders.iter().flat_map(|folder| fs::read_dir(repository().join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

/// Texts in backticks that begin with a folder of the repository, up to a placeholder such as
/// `NAME` or `{a,b}`.
fn paths(text: &str) -> impl Iterator<Item = PathBuf> {
    let quoted = text.split('`').skip(1).step_by(2);
    let named = quoted.filter(|quoted| FOLDERS.iter().any(|folder| quoted.starts_with(folder)));
    named.map(|path| {
        let path = path.split_whitespace().next().unwrap_or_default();
        let is_placeholder = |part: &str| {
            part.contains(['{', '*']) || part.contains("NAME") || part.contains("SECTION")
        };
        let parts = path.split('/').take_while(|part| !is_placeholder(part));
        repository().join(parts.collect::<PathBuf>())
    })
}

/// Targets of links to files, from the document's folder.
fn links<'a>(document: &'a Path, text: &'a str) -> impl Iterator<Item = PathBuf> + 'a {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
    let local = targets.filter(|target| !target.is_empty() && !target.contains("://"));
    local.map(|target| document.parent().unwrap().join(target))
}

#[test]
fn every_file_that_a_document_names_exists() {
    let documents = documents();
    assert!(documents.len() > 10, "{documents:?}");
    let mut missing = Vec::new();
    for document in &documents {
        // Code blocks have backticks of their own.
        let text: String = fs::read_to_string(document).unwrap().split("```").step_by(2).collect();
        let named = paths(&text).chain(links(document, &text));
        let absent = named.filter(|path| !path.exists());
        missing.extend(absent.map(|path| format!("{}: {}", document.display(), path.display())));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}
