//! The commit that a run began with, in its run folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::failure::RunResult;
use crate::output;

const FILE: &str = "hub.json";

/// What was asked for, and what that was.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Pinned {
    id: String,
    revision: Option<String>,
    commit: String,
}

pub(super) struct Pin {
    path: PathBuf,
    asked: Pinned,
}

impl Pin {
    /// A file that cannot be read or is about another model pins nothing.
    pub(super) fn read(run_dir: &Path, id: &str, revision: Option<&str>) -> Pin {
        let path = run_dir.join(FILE);
        let revision = revision.map(str::to_owned);
        let asked = Pinned { id: id.to_owned(), revision, commit: String::new() };
        let found = std::fs::read(&path).ok();
        let found: Option<Pinned> = found.and_then(|json| serde_json::from_slice(&json).ok());
        let same = |found: &Pinned| found.id == asked.id && found.revision == asked.revision;
        match found.filter(same) {
            Some(found) => Pin { path, asked: found },
            None => Pin { path, asked },
        }
    }

    pub(super) fn commit(&self) -> Option<&str> {
        Some(self.asked.commit.as_str()).filter(|commit| !commit.is_empty())
    }

    pub(super) fn write(self, commit: &str) -> RunResult<()> {
        let pinned = Pinned { commit: commit.to_owned(), ..self.asked };
        let json = serde_json::to_vec(&pinned)
            .map_err(|error| output::failed("serialize", &self.path)(error.into()))?;
        output::write(&self.path, &json)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_holds_for_what_was_asked() {
        let folder = tempfile::tempdir().unwrap();
        let read =
            |id: &str, revision| Pin::read(folder.path(), id, revision).commit().map(str::to_owned);
        assert_eq!(read("org/name", None), None);
        Pin::read(folder.path(), "org/name", None).write("abc").unwrap();
        assert_eq!(read("org/name", None), Some("abc".to_owned()));
        assert_eq!(read("org/other", None), None);
        assert_eq!(read("org/name", Some("v2")), None);
    }
}
