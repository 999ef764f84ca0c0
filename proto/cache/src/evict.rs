//! Keeps the cache within its size limit by evicting least-recently-used entries.

use std::fs::{self, File, Metadata};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::error::{Error, Result};

/// The suffix of an entry that is being removed.
const REMOVING: &str = ".removing";
/// The extension of a file that is being written.
const UNFINISHED: &str = "part";
/// The age from which an unfinished file counts as abandoned.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// The parts of a cache that eviction covers.
#[derive(Clone, Debug)]
pub struct CacheFolders {
    /// Folders whose subfolders are entries.
    pub of_folders: Vec<PathBuf>,
    /// Folders whose files are entries.
    pub of_files: Vec<PathBuf>,
}

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    bytes: u64,
    last_use: SystemTime,
}

/// Evicts the least recently used entries until all together have at most `bytes_max` bytes, or
/// the rest is in use. Returns the bytes removed.
pub fn evict(folders: &CacheFolders, bytes_max: u64) -> Result<u64> {
    let mut entries = Vec::new();
    for folder in &folders.of_folders {
        entries.extend(folder_entries(folder)?);
    }
    for folder in &folders.of_files {
        entries.extend(file_entries(folder)?);
    }
    entries.sort_by_key(|entry| entry.last_use);
    let mut left: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let mut removed = 0;
    for entry in entries {
        if left <= bytes_max {
            break;
        }
        if remove(&entry.path)? {
            left -= entry.bytes;
            removed += entry.bytes;
        }
    }
    Ok(removed)
}

/// The subfolders of `folder`, except those with a dot first: these are unfinished.
fn folder_entries(folder: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    for (path, metadata) in list(folder)? {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if !metadata.is_dir() || name.starts_with('.') {
            continue;
        }
        if name.ends_with(REMOVING) {
            // Its removal was interrupted.
            let _ = fs::remove_dir_all(&path);
            continue;
        }
        let last_use = metadata.modified().map_err(Error::io(&path, "read the last use of"))?;
        entries.push(Entry { bytes: size(&path), path, last_use });
    }
    Ok(entries)
}

/// The files of `folder`, except those that are being written. Removes abandoned ones.
fn file_entries(folder: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    // A link leads to a folder shared with hosts that may have another limit.
    if folder.is_symlink() {
        return Ok(entries);
    }
    for (path, metadata) in list(folder)? {
        if !metadata.is_file() {
            continue;
        }
        let last_use = metadata.modified().map_err(Error::io(&path, "read the last use of"))?;
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            if is_abandoned(last_use) {
                let _ = fs::remove_file(&path);
            }
            continue;
        }
        entries.push(Entry { path, bytes: metadata.len(), last_use });
    }
    Ok(entries)
}

/// The contents of a folder, none if it does not exist. Links are not followed.
fn list(folder: &Path) -> Result<Vec<(PathBuf, Metadata)>> {
    let Ok(listed) = fs::read_dir(folder) else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for entry in listed {
        let path = entry.map_err(Error::io(folder, "list"))?.path();
        // A missing one was removed by another process meanwhile.
        if let Ok(metadata) = fs::symlink_metadata(&path) {
            found.push((path, metadata));
        }
    }
    Ok(found)
}

/// The bytes of the files below `folder`. Links are not followed: their targets count where they
/// are.
fn size(folder: &Path) -> u64 {
    fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| match fs::symlink_metadata(entry.path()) {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) if metadata.is_file() => metadata.len(),
            _ => 0,
        })
        .sum()
}

/// Removes an entry; false if it is in use. A folder is renamed first, so that a half-removed
/// entry is not taken for a whole one.
fn remove(path: &Path) -> Result<bool> {
    if path.is_file() {
        return Ok(fs::remove_file(path).is_ok());
    }
    let Ok(folder) = File::open(path) else { return Ok(false) };
    if folder.try_lock().is_err() {
        return Ok(false);
    }
    let mut removing = path.as_os_str().to_owned();
    removing.push(REMOVING);
    let removing = PathBuf::from(removing);
    fs::rename(path, &removing).map_err(Error::io(path, "remove"))?;
    fs::remove_dir_all(&removing).map_err(Error::io(&removing, "remove"))?;
    Ok(true)
}

/// Whether an unfinished file was last written so long ago that no run writes it any more.
#[expect(clippy::disallowed_methods, reason = "times of files are those of the wall clock")]
fn is_abandoned(last_write: SystemTime) -> bool {
    last_write.elapsed().is_ok_and(|age| age > UNFINISHED_AGE_MAX)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // helpers of tests fail by panicking

    use super::*;
    use crate::lock::EntryLocks;

    /// Creates an entry of `bytes` bytes, last used `seconds` ago.
    fn entry(folder: &Path, name: &str, bytes: usize, seconds: u64) {
        let path = folder.join(name);
        fs::create_dir_all(path.join("below")).unwrap();
        fs::write(path.join("below/file"), vec![0; bytes]).unwrap();
        let last_use = SystemTime::now() - Duration::from_secs(seconds);
        File::open(path).unwrap().set_modified(last_use).unwrap();
    }

    fn names(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn evicts_the_least_recently_used_entries_that_are_not_locked() {
        let cache = tempfile::tempdir().unwrap();
        let (one, other) = (cache.path().join("objects"), cache.path().join("tokens"));
        entry(&one, "oldest", 100, 40);
        entry(&one, "locked", 100, 30);
        entry(&other, "old", 100, 20);
        entry(&other, "new", 100, 10);
        entry(&other, ".unfinished-x", 100, 50);
        let folders = CacheFolders {
            of_folders: vec![one.clone(), other.clone(), cache.path().join("absent")],
            of_files: Vec::new(),
        };
        assert_eq!(evict(&folders, 400).unwrap(), 0);
        let locks = EntryLocks::default();
        locks.lock(&one.join("locked")).unwrap();
        assert_eq!(evict(&folders, 300).unwrap(), 100);
        assert_eq!(names(&one), ["locked"]);
        assert_eq!(evict(&folders, 200).unwrap(), 100);
        assert_eq!(names(&other), [".unfinished-x", "new"]);
        assert_eq!(evict(&folders, 0).unwrap(), 100);
        assert_eq!(names(&one), ["locked"]);
        drop(locks);
        assert_eq!(evict(&folders, 0).unwrap(), 100);
        assert!(names(&one).is_empty());
    }

    #[test]
    fn an_interrupted_removal_is_completed() {
        let cache = tempfile::tempdir().unwrap();
        entry(cache.path(), "a.removing", 10, 1);
        let folders =
            CacheFolders { of_folders: vec![cache.path().to_owned()], of_files: Vec::new() };
        assert_eq!(evict(&folders, 100).unwrap(), 0);
        assert!(names(cache.path()).is_empty());
    }

    #[test]
    fn files_are_evicted_unless_they_are_being_written() {
        let cache = tempfile::tempdir().unwrap();
        let (tokens, executables) = (cache.path().join("tokens"), cache.path().join("executables"));
        entry(&tokens, "old", 100, 30);
        entry(&tokens, "new", 100, 10);
        fs::create_dir(&executables).unwrap();
        for (name, seconds) in
            [("a.xla", 40), ("b.xla", 20), ("c.1.part", 50), ("d.1.part", 100_000)]
        {
            let file = File::create(executables.join(name)).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        }
        let folders =
            CacheFolders { of_folders: vec![tokens.clone()], of_files: vec![executables.clone()] };
        assert_eq!(evict(&folders, 200).unwrap(), 200);
        assert_eq!(names(&tokens), ["new"]);
        assert_eq!(names(&executables), ["b.xla", "c.1.part"]);
        assert_eq!(evict(&folders, 0).unwrap(), 200);
        assert_eq!(names(&executables), ["c.1.part"]);
    }
}
