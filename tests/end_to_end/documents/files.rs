//! Files of the repository that documents name.

use std::path::PathBuf;

use super::{Document, check, quoted, repository};

const FOLDERS: [&str; 8] =
    ["proto/", "daemon/", "loader/", "xla-backend/", "tests/", "scripts/", "docs/", ".ci/"];

#[test]
fn every_file_that_a_document_names_exists() {
    check(|document: &Document| {
        let prose = document.prose();
        let missing = paths(&prose).filter(|path| !repository().join(path).exists());
        missing.map(|path| format!("there is no {}", path.display())).collect::<Vec<_>>()
    });
}

/// Texts in backticks that begin with a folder of the repository, up to a placeholder such as
/// `NAME` or `{a,b}`.
fn paths(prose: &str) -> impl Iterator<Item = PathBuf> {
    let named =
        quoted(prose).filter(|quoted| FOLDERS.iter().any(|folder| quoted.starts_with(folder)));
    named.map(|path| {
        let path = path.split_whitespace().next().unwrap_or_default();
        let is_placeholder = |part: &str| {
            part.contains(['{', '*']) || part.contains("NAME") || part.contains("SECTION")
        };
        path.split('/').take_while(|part| !is_placeholder(part)).collect()
    })
}
