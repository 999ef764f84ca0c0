//! The files of a store, moved as one.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use super::DoctorError;
use crate::clock;

/// Ends of the names of a store's files, as SQLite makes them.
const SUFFIXES: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// Moves a store to a new name beside it, which it returns.
pub(super) fn keep(path: &Path, why: &str) -> Result<PathBuf, DoctorError> {
    let kept = unused_name(path, why);
    for suffix in SUFFIXES {
        let from = with_suffix(path, suffix);
        if from.exists() {
            rename(&from, &with_suffix(&kept, suffix))?;
        }
    }
    Ok(kept)
}

/// Gives a store, which is one file, a second name beside it, which it returns.
pub(super) fn keep_link(path: &Path, why: &str) -> Result<PathBuf, DoctorError> {
    let kept = unused_name(path, why);
    fs::hard_link(path, &kept).map_err(io_error("link", path))?;
    Ok(kept)
}

/// A name beside a store that no file has: several may be kept within a second.
fn unused_name(path: &Path, why: &str) -> PathBuf {
    let seconds = clock::now() / 1_000_000;
    let name = |count: u64| match count {
        0 => path.with_extension(format!("db.{why}-{seconds}")),
        _ => path.with_extension(format!("db.{why}-{seconds}-{count}")),
    };
    let is_unused = |name: &PathBuf| fs::symlink_metadata(name).is_err();
    (0..).map(name).find(is_unused).unwrap_or_else(|| name(0))
}

/// Removes the files of a store, if they exist. Links are removed, and not followed.
pub(super) fn remove_store(path: &Path) -> Result<(), DoctorError> {
    for path in SUFFIXES.map(|suffix| with_suffix(path, suffix)) {
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => {
                return Err(io_error("remove", &path)(error));
            }
            _ => {}
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
    File::open(path).and_then(|file| file.sync_all()).map_err(io_error("sync", path))
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<(), DoctorError> {
    fs::rename(from, to).map_err(io_error("rename", from))?;
    let folder = to.parent().unwrap_or(Path::new("/"));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(io_error("rename", from))
}

/// The path of a store itself, where `path` is a link to it.
pub(super) fn behind_links(path: &Path) -> Result<PathBuf, DoctorError> {
    fs::canonicalize(path).map_err(io_error("open", path))
}

/// The owner of `path`, unless new files in its folder have the same one. The files of a store that root makes for
/// another account are out of that account's reach.
pub(super) fn foreign_owner(path: &Path) -> Option<u32> {
    let owner = fs::symlink_metadata(path).ok()?.uid();
    let probe = path.with_extension("db.probe");
    let _ = fs::remove_file(&probe);
    let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&probe);
    let own = made.and_then(|file| file.metadata());
    let _ = fs::remove_file(&probe);
    // If no file can be made, the next one says why.
    own.is_ok_and(|own| own.uid() != owner).then_some(owner)
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DoctorError {
    let path = path.to_owned();
    move |source| DoctorError::Io { action, path, source }
}
