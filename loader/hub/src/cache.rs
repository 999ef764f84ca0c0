//! The cache of this host, in the layout of `huggingface_hub`.
//!
//! `models--<org>--<name>` (`datasets--…`) has in `refs/<revision>` the commit of a revision, in
//! `snapshots/<commit>` links to the files, and in `blobs` their contents by ETag.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use traind_cache::EntryLocks;
use traind_durable::Replacement;

use super::client::Revision;
use super::error::io_problem;
use super::{Problem, Repository};

/// One cache folder.
#[derive(Debug)]
pub(crate) struct Cache {
    folder: PathBuf,
}

/// A snapshot that is being downloaded.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) folder: PathBuf,
    pub(crate) blobs: PathBuf,
    repository: PathBuf,
}

impl Cache {
    /// Returns the caches to search, of which the first is written to: the one that the environment
    /// names, else that in `cache_dir` and the user's. A daemon may have no home to write to.
    pub(crate) fn all(cache_dir: Option<&Path>) -> Vec<Cache> {
        let folders = match environment_folder() {
            Some(folder) => vec![folder],
            None => cache_dir
                .map(|folder| folder.join("hub"))
                .into_iter()
                .chain([user_folder()])
                .collect(),
        };
        folders.into_iter().map(|folder| Cache { folder }).collect()
    }

    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder for the files of a revision, which may be a commit.
    pub(crate) fn snapshot(&self, repository: &Repository, revision: &str) -> PathBuf {
        let commit = self.commit(repository, revision);
        self.repository(repository).join("snapshots").join(commit)
    }

    /// Returns the commit that the cache has for a revision, else the revision itself.
    pub(crate) fn commit(&self, repository: &Repository, revision: &str) -> String {
        let reference = self.repository(repository).join("refs").join(revision);
        let commit = fs::read_to_string(reference);
        commit.map_or_else(|_| revision.to_owned(), |commit| commit.trim().to_owned())
    }

    /// Returns the names of all files of a commit, where it was fetched from the hub.
    pub(crate) fn listing(&self, repository: &Repository, commit: &str) -> Option<Vec<String>> {
        let json = fs::read(self.listing_path(repository, commit)).ok()?;
        serde_json::from_slice(&json).ok()
    }

    pub(crate) fn write_listing(
        &self,
        repository: &Repository,
        revision: &Revision,
    ) -> Result<(), Problem> {
        let path = self.listing_path(repository, &revision.commit);
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(io_problem("create", folder))?;
        let json = serde_json::to_vec(&revision.files).unwrap_or_default();
        let file = Replacement::of(&path).by_many();
        file.write(|file| file.write_all(&json)).map_err(io_problem("write", &path))
    }

    /// The path of a listing, in a folder that `huggingface_hub` does not know.
    fn listing_path(&self, repository: &Repository, commit: &str) -> PathBuf {
        self.repository(repository).join(".listings").join(format!("{commit}.json"))
    }

    /// Creates the folders of a snapshot and locks the repository.
    pub(crate) fn begin(
        &self,
        repository: &Repository,
        commit: &str,
        locks: &EntryLocks,
    ) -> Result<Snapshot, Problem> {
        let repository = self.repository(repository);
        locks.create_and_lock(&repository).map_err(io_problem("create", &repository))?;
        let (folder, blobs) = (repository.join("snapshots").join(commit), repository.join("blobs"));
        for folder in [&folder, &blobs] {
            fs::create_dir_all(folder).map_err(io_problem("create", folder))?;
        }
        Ok(Snapshot { folder, blobs, repository })
    }

    pub(crate) fn repository(&self, repository: &Repository) -> PathBuf {
        self.folder.join(repository.folder_name())
    }
}

impl Snapshot {
    /// Records the commit of the revision.
    pub(crate) fn set_reference(&self, revision: &str, commit: &str) -> Result<(), Problem> {
        if revision == commit {
            return Ok(());
        }
        let reference = self.repository.join("refs").join(revision);
        let parent = reference.parent().unwrap_or(&reference);
        fs::create_dir_all(parent).map_err(io_problem("create", parent))?;
        // Other runners may write the same reference.
        let file = Replacement::of(&reference).by_many();
        file.write(|file| file.write_all(commit.as_bytes()))
            .map_err(io_problem("write", &reference))
    }
}

/// Whether a revision is a commit, which never changes.
pub(crate) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn environment_folder() -> Option<PathBuf> {
    let hub = std::env::var_os("HF_HUB_CACHE").map(PathBuf::from);
    hub.or_else(|| Some(PathBuf::from(std::env::var_os("HF_HOME")?).join("hub")))
}

fn user_folder() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    home.join(".cache/huggingface/hub")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model_files;

    #[test]
    fn finds_complete_snapshots_by_branch_and_by_commit() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: folder.path().to_owned() };
        let tiny = Repository::model("google/tiny");
        let begun = cache.begin(&tiny, "abc123", &EntryLocks::default()).unwrap();
        begun.set_reference("main", "abc123").unwrap();
        let complete = |id, revision, with_weights| {
            let snapshot = cache.snapshot(&Repository::model(id), revision);
            model_files::are_complete(&snapshot, with_weights).then_some(snapshot)
        };
        let find = |id, revision| complete(id, revision, true);
        let write = |name: &str, text: &str| fs::write(begun.folder.join(name), text).unwrap();
        write("config.json", "{}");
        write("tokenizer.json", "{}");
        assert_eq!(find("google/tiny", "main"), None, "a snapshot without weights");
        assert_eq!(complete("google/tiny", "main", false), Some(begun.folder.clone()));
        write("model.safetensors.index.json", r#"{"weight_map": {"a": "model-1.safetensors"}}"#);
        assert_eq!(find("google/tiny", "main"), None, "a snapshot without one of its files");
        write("model-1.safetensors", "");
        assert_eq!(find("google/tiny", "main"), Some(begun.folder.clone()));
        assert_eq!(find("google/tiny", "abc123"), Some(begun.folder.clone()));
        assert_eq!(find("google/tiny", "v2"), None);
        assert_eq!(find("google/other", "main"), None);
    }

    #[test]
    fn a_commit_has_forty_digits() {
        assert!(is_commit(&"0a".repeat(20)));
        assert!(!is_commit("main") && !is_commit(&"0g".repeat(20)) && !is_commit("0a0a"));
    }
}
