//! The files of a store, moved as one.

use std::fs;
use std::path::{Path, PathBuf};

use super::DoctorError;
use crate::clock;

/// Moves a store to a new name beside it, which it returns.
pub(super) fn keep(path: &Path, why: &str) -> Result<PathBuf, DoctorError> {
    let kept = path.with_extension(format!("db.{why}-{}", clock::now() / 1_000_000));
    for suffix in ["", "-wal", "-shm"] {
        let from = with_suffix(path, suffix);
        if from.exists() {
            rename(&from, &with_suffix(&kept, suffix))?;
        }
    }
    Ok(kept)
}

/// Removes the files of a store, if they exist.
pub(super) fn remove_store(path: &Path) -> Result<(), DoctorError> {
    for path in ["", "-wal", "-shm"].map(|suffix| with_suffix(path, suffix)) {
        if path.exists() {
            fs::remove_file(&path).map_err(|source| DoctorError::Io {
                action: "remove",
                path,
                source,
            })?;
        }
    }
    Ok(())
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

pub(super) fn sync(path: &Path) -> Result<(), DoctorError> {
    let synced = fs::File::open(path).and_then(|file| file.sync_all());
    synced.map_err(|source| DoctorError::Io { action: "sync", path: path.to_owned(), source })
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<(), DoctorError> {
    let error = |source| DoctorError::Io { action: "rename", path: from.to_owned(), source };
    fs::rename(from, to).map_err(error)?;
    let folder = to.parent().unwrap_or(Path::new("/"));
    fs::File::open(folder).and_then(|folder| folder.sync_all()).map_err(error)
}
