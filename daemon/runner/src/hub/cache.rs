//! The cache of the hub on this host, as `huggingface_hub` lays it out:
//! `models--<org>--<name>/refs/<revision>` (`datasets--…`) holds the commit whose files are links in
//! `snapshots/<commit>` to what `blobs` has under each file's ETag.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use traind_cache::EntryLocks;
use traind_durable::Replacement;

use super::client::Info;
use super::repository::Repository;
use super::{HubProblem, files};

/// One cache folder.
#[derive(Debug)]
pub(super) struct Cache {
    folder: PathBuf,
}

/// A snapshot that is being fetched.
#[derive(Debug)]
pub(super) struct Snapshot {
    pub(super) folder: PathBuf,
    pub(super) blobs: PathBuf,
    repository: PathBuf,
}

impl Cache {
    /// Those that are looked into; the first is written to. That is the one the environment
    /// names, else one in `cache_dir`, since a daemon need not have a home to write to.
    pub(super) fn all(cache_dir: Option<&Path>) -> Vec<Cache> {
        let own = cache_dir.map(|folder| folder.join("hub"));
        let folders = match of_environment() {
            Some(folder) => vec![folder],
            None => own.into_iter().chain([of_user()]).collect(),
        };
        folders.into_iter().map(|folder| Cache { folder }).collect()
    }

    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// The folder of a model revision's files, if all that are needed are there.
    pub(super) fn model(
        &self,
        model: &Repository,
        revision: &str,
        from_config: bool,
    ) -> Option<PathBuf> {
        let snapshot = self.snapshot(model, revision);
        files::is_complete(&snapshot, from_config).then_some(snapshot)
    }

    /// Where the files of a revision would be, which may be the commit itself.
    pub(super) fn snapshot(&self, repository: &Repository, revision: &str) -> PathBuf {
        let commit = self.commit(repository, revision);
        self.repository(repository).join("snapshots").join(commit)
    }

    /// The commit of a revision, as far as is known here.
    pub(super) fn commit(&self, repository: &Repository, revision: &str) -> String {
        let reference = self.repository(repository).join("refs").join(revision);
        let commit = fs::read_to_string(reference);
        commit.map_or_else(|_| revision.to_owned(), |commit| commit.trim().to_owned())
    }

    /// All names of a commit's files, as the hub told them when it was fetched.
    pub(super) fn listing(&self, repository: &Repository, commit: &str) -> Option<Vec<String>> {
        let json = fs::read(self.listing_path(repository, commit)).ok()?;
        serde_json::from_slice(&json).ok()
    }

    pub(super) fn keep_listing(
        &self,
        repository: &Repository,
        info: &Info,
    ) -> Result<(), HubProblem> {
        let path = self.listing_path(repository, &info.commit);
        let folder = path.parent().unwrap_or(&path);
        fs::create_dir_all(folder).map_err(failed("create", folder))?;
        let json = serde_json::to_vec(&info.files).unwrap_or_default();
        let file = Replacement::of(&path).by_many();
        file.write(|file| file.write_all(&json)).map_err(failed("write", &path))
    }

    /// Beside what `huggingface_hub` knows of.
    fn listing_path(&self, repository: &Repository, commit: &str) -> PathBuf {
        self.repository(repository).join(".listings").join(format!("{commit}.json"))
    }

    /// Creates the folders of a snapshot and locks the repository.
    pub(super) fn begin(
        &self,
        repository: &Repository,
        commit: &str,
        locks: &EntryLocks,
    ) -> Result<Snapshot, HubProblem> {
        let repository = self.repository(repository);
        locks.create_and_lock(&repository).map_err(failed("create", &repository))?;
        let (folder, blobs) = (repository.join("snapshots").join(commit), repository.join("blobs"));
        for folder in [&folder, &blobs] {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        Ok(Snapshot { folder, blobs, repository })
    }

    pub(super) fn repository(&self, repository: &Repository) -> PathBuf {
        self.folder.join(repository.folder_name())
    }
}

impl Snapshot {
    /// Notes which commit the revision is.
    pub(super) fn finish(&self, revision: &str, commit: &str) -> Result<(), HubProblem> {
        if revision == commit {
            return Ok(());
        }
        let reference = self.repository.join("refs").join(revision);
        let parent = reference.parent().unwrap_or(&reference);
        fs::create_dir_all(parent).map_err(failed("create", parent))?;
        // Other runners may fetch the same model now.
        let file = Replacement::of(&reference).by_many();
        file.write(|file| file.write_all(commit.as_bytes())).map_err(failed("write", &reference))
    }
}

/// An I/O failure while a model is fetched.
pub(super) fn failed(
    action: &'static str,
    path: &Path,
) -> impl FnOnce(std::io::Error) -> HubProblem + use<> {
    let path = path.to_owned();
    move |error| HubProblem::Io { action, path, message: error.to_string() }
}

/// Whether a revision is a commit, which never changes.
pub(super) fn is_commit(revision: &str) -> bool {
    revision.len() == 40 && revision.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn of_environment() -> Option<PathBuf> {
    let hub = std::env::var_os("HF_HUB_CACHE").map(PathBuf::from);
    hub.or_else(|| Some(PathBuf::from(std::env::var_os("HF_HOME")?).join("hub")))
}

fn of_user() -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    home.join(".cache/huggingface/hub")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_complete_snapshots_by_branch_and_by_commit() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache { folder: folder.path().to_owned() };
        let tiny = Repository::model("google/tiny");
        let begun = cache.begin(&tiny, "abc123", &EntryLocks::default()).unwrap();
        begun.finish("main", "abc123").unwrap();
        let find = |id, revision| cache.model(&Repository::model(id), revision, false);
        let write = |name: &str, text: &str| fs::write(begun.folder.join(name), text).unwrap();
        write("config.json", "{}");
        write("tokenizer.json", "{}");
        assert_eq!(find("google/tiny", "main"), None, "a snapshot without weights");
        assert_eq!(cache.model(&tiny, "main", true), Some(begun.folder.clone()));
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
