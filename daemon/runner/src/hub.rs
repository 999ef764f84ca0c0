//! Model folders by hub id: from the local Hugging Face cache.

use std::path::{Path, PathBuf};

use crate::failure::{RunError, RunResult};

/// The folder of a cached snapshot of `id` at `revision` (default `main`).
pub(crate) fn snapshot(id: &str, revision: Option<&str>) -> RunResult<PathBuf> {
    let cache = cache_folder();
    find_snapshot(&cache, id, revision.unwrap_or("main")).ok_or_else(|| RunError::Field {
        name: "model.name_or_path",
        value: id.to_owned(),
        problem: format!(
            "it is not in the Hugging Face cache {}; download it there first, or give the path \
             of a model folder, which begins with / or ./",
            cache.display()
        ),
    })
}

/// `HF_HUB_CACHE`, `HF_HOME/hub`, or the default of `huggingface_hub`.
fn cache_folder() -> PathBuf {
    if let Some(cache) = std::env::var_os("HF_HUB_CACHE") {
        return cache.into();
    }
    let home = std::env::var_os("HF_HOME").map(PathBuf::from);
    let default = || {
        let user = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
        user.join(".cache/huggingface")
    };
    home.unwrap_or_else(default).join("hub")
}

/// `models--<org>--<name>/refs/<revision>` holds the commit whose files are in
/// `snapshots/<commit>`; a revision may be the commit itself.
fn find_snapshot(cache: &Path, id: &str, revision: &str) -> Option<PathBuf> {
    let repository = cache.join(format!("models--{}", id.replace('/', "--")));
    let reference = std::fs::read_to_string(repository.join("refs").join(revision));
    let commit = reference.map_or_else(|_| revision.to_owned(), |commit| commit.trim().to_owned());
    let snapshot = repository.join("snapshots").join(commit);
    snapshot.join("config.json").exists().then_some(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_snapshots_by_branch_and_by_commit() {
        let cache = tempfile::tempdir().unwrap();
        let repository = cache.path().join("models--google--tiny");
        let snapshot = repository.join("snapshots/abc123");
        std::fs::create_dir_all(&snapshot).unwrap();
        std::fs::create_dir_all(repository.join("refs")).unwrap();
        std::fs::write(repository.join("refs/main"), "abc123").unwrap();
        let find = |id, revision| find_snapshot(cache.path(), id, revision);
        assert_eq!(find("google/tiny", "main"), None, "a snapshot without config.json");
        std::fs::write(snapshot.join("config.json"), "{}").unwrap();
        assert_eq!(find("google/tiny", "main"), Some(snapshot.clone()));
        assert_eq!(find("google/tiny", "abc123"), Some(snapshot));
        assert_eq!(find("google/tiny", "v2"), None);
        assert_eq!(find("google/other", "main"), None);
    }
}
