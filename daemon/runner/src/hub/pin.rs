//! The commit that a run began with, in its run folder: one file a repository.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::repository::Repository;
use crate::error::RunResult;
use crate::output;

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
    /// A file that cannot be read or is about another revision pins nothing.
    pub(super) fn read(run_dir: &Path, repository: &Repository, revision: Option<&str>) -> Pin {
        let path = run_dir.join(format!("hub-{}.json", repository.folder_name()));
        let (id, revision) = (repository.id.clone(), revision.map(str::to_owned));
        let asked = Pinned { id, revision, commit: String::new() };
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
        if self.commit() == Some(commit) {
            return Ok(());
        }
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
        let read = |repository: Repository, revision| {
            Pin::read(folder.path(), &repository, revision).commit().map(str::to_owned)
        };
        let model = || Repository::model("org/name");
        assert_eq!(read(model(), None), None);
        Pin::read(folder.path(), &model(), None).write("abc").unwrap();
        assert_eq!(read(model(), None), Some("abc".to_owned()));
        assert_eq!(read(Repository::model("org/other"), None), None);
        assert_eq!(read(Repository::data_set("org/name"), None), None);
        assert_eq!(read(model(), Some("v2")), None);
    }
}
