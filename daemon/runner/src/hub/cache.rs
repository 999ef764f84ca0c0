//! The cache of the hub on this host, as `huggingface_hub` lays it out:
//! `models--<org>--<name>/refs/<revision>` holds the commit whose files are links in
//! `snapshots/<commit>` to what `blobs` has under each file's ETag.

use std::fs;
use std::path::{Path, PathBuf};

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

    /// The folder of a revision's files, if all that are needed are there. A revision may be
    /// the commit itself.
    pub(super) fn snapshot(&self, id: &str, revision: &str, from_config: bool) -> Option<PathBuf> {
        let repository = self.repository(id);
        let reference = fs::read_to_string(repository.join("refs").join(revision));
        let commit = reference.map_or_else(|_| revision.to_owned(), |it| it.trim().to_owned());
        let snapshot = repository.join("snapshots").join(commit);
        files::is_complete(&snapshot, from_config).then_some(snapshot)
    }

    /// Makes the folders of a snapshot.
    pub(super) fn begin(&self, id: &str, commit: &str) -> Result<Snapshot, HubProblem> {
        let repository = self.repository(id);
        let (folder, blobs) = (repository.join("snapshots").join(commit), repository.join("blobs"));
        for folder in [&folder, &blobs] {
            fs::create_dir_all(folder).map_err(failed("create", folder))?;
        }
        Ok(Snapshot { folder, blobs, repository })
    }

    fn repository(&self, id: &str) -> PathBuf {
        self.folder.join(format!("models--{}", id.replace('/', "--")))
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
        let written = crate::output::write_atomic(&reference, commit.as_bytes());
        written.map_err(failed("write", &reference))
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
        let begun = cache.begin("google/tiny", "abc123").unwrap();
        begun.finish("main", "abc123").unwrap();
        let find = |id, revision| cache.snapshot(id, revision, false);
        let write = |name: &str, text: &str| fs::write(begun.folder.join(name), text).unwrap();
        write("config.json", "{}");
        write("tokenizer.json", "{}");
        assert_eq!(find("google/tiny", "main"), None, "a snapshot without weights");
        assert_eq!(cache.snapshot("google/tiny", "main", true), Some(begun.folder.clone()));
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
