//! The documents: files, links, commands, job files and Python that they have. Those of the pages that
//! a newcomer follows are run.

mod commands;
mod files;
mod job_files;
mod links;
mod programs;
mod walkthrough;

use std::fs;
use std::path::{Path, PathBuf};

/// A Markdown file.
struct Document {
    path: PathBuf,
    text: String,
}

impl Document {
    fn read(path: PathBuf) -> Document {
        let text = fs::read_to_string(&path).unwrap();
        Document { path, text }
    }

    /// The text without its code blocks.
    fn prose(&self) -> String {
        self.text.split("```").step_by(2).collect()
    }

    /// The code blocks of a language.
    fn blocks<'a>(&'a self, language: &'a str) -> impl Iterator<Item = &'a str> {
        self.all_blocks().filter(move |(name, _)| *name == language).map(|(_, block)| block)
    }

    /// All code blocks with their languages.
    fn all_blocks(&self) -> impl Iterator<Item = (&str, &str)> {
        self.text.split("```").skip(1).step_by(2).filter_map(|block| block.split_once('\n'))
    }
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().unwrap()
}

/// The Markdown files of the root, of `docs`, of the scripts and of the Python client.
fn documents() -> Vec<Document> {
    let folders = ["", "docs", "docs/decisions", "docs/examples", "scripts", "proto/python"];
    let entries =
        folders.iter().flat_map(|folder| fs::read_dir(repository().join(folder)).unwrap());
    let paths = entries.map(|entry| entry.unwrap().path());
    let pages = paths.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let documents: Vec<_> = pages.map(Document::read).collect();
    assert!(documents.len() > 10, "{} documents", documents.len());
    documents
}

/// Texts in backticks.
fn quoted(prose: &str) -> impl Iterator<Item = &str> {
    prose.split('`').skip(1).step_by(2)
}

/// Fails with all problems that `problems` finds in the documents.
fn check<P: IntoIterator<Item = String>>(problems: impl Fn(&Document) -> P) {
    let found: Vec<String> = documents()
        .iter()
        .flat_map(|document| {
            let name = document.path.strip_prefix(repository()).unwrap().display().to_string();
            problems(document).into_iter().map(move |problem| format!("{name}: {problem}"))
        })
        .collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}
