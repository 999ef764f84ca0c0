//! The commit that a run started with, in one file a repository of its run folder.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::error::io_problem;
use super::{Problem, Repository};

/// The requested revision and its commit; empty before it is known.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Pinned {
    id: String,
    revision: Option<String>,
    commit: String,
}

pub(crate) struct Pin {
    path: PathBuf,
    pinned: Pinned,
}

impl Pin {
    /// An unreadable file, or one for another revision, pins nothing.
    pub(crate) fn read(run_dir: &Path, repository: &Repository, revision: Option<&str>) -> Pin {
        let path = run_dir.join(format!("hub-{}.json", repository.folder_name()));
        let (id, revision) = (repository.id.clone(), revision.map(str::to_owned));
        let found = std::fs::read(&path).ok();
        let found = found.and_then(|json| serde_json::from_slice::<Pinned>(&json).ok());
        let pinned = found.filter(|found| found.id == id && found.revision == revision);
        let unpinned = || Pinned { id, revision, commit: String::new() };
        Pin { path, pinned: pinned.unwrap_or_else(unpinned) }
    }

    pub(crate) fn commit(&self) -> Option<&str> {
        Some(self.pinned.commit.as_str()).filter(|commit| !commit.is_empty())
    }

    pub(crate) fn write(self, commit: &str) -> Result<(), Problem> {
        if self.commit() == Some(commit) {
            return Ok(());
        }
        let pinned = Pinned { commit: commit.to_owned(), ..self.pinned };
        let json = serde_json::to_vec(&pinned)
            .map_err(|error| io_problem("serialize", &self.path)(error.into()))?;
        traind_durable::replace(&self.path, &json).map_err(io_problem("write", &self.path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_applies_to_its_repository_and_revision() {
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
