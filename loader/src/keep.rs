//! What of the cache is kept: it has a size, and where it is more, those entries go first that
//! were not used for the longest time. An entry is a folder, of which whoever uses one holds a
//! lock, and none that is held goes; or a file, which is read at once and then needed no more.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

/// Ends the name of an entry that is being removed.
const GOING: &str = ".going";
/// Ends the name of a file that is being written, without its dot.
const UNFINISHED: &str = "part";
/// No file of a cache takes as long to be written.
const WRITING_MAX: Duration = Duration::from_secs(24 * 60 * 60);

/// Entries in use; clones hold together. They are let go with the last of them.
#[derive(Clone, Debug, Default)]
pub struct Held {
    locks: Arc<Mutex<Vec<File>>>,
}

impl Held {
    /// Notes that the entry is used now, and keeps it there. Of a file system that knows no
    /// locks nothing is ever removed.
    pub fn hold(&self, entry: &Path) -> io::Result<()> {
        let folder = File::open(entry)?;
        folder.lock_shared()?;
        // It may have been removed while this waited for the lock.
        let (held, there) = (folder.metadata()?, fs::metadata(entry)?);
        if (held.dev(), held.ino()) != (there.dev(), there.ino()) {
            return Err(ErrorKind::NotFound.into());
        }
        // Whose entry it is may be somebody else, who then does not learn of this use.
        let _ = folder.set_modified(SystemTime::now());
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
        Ok(())
    }
}

#[derive(Debug)]
struct Entry {
    path: PathBuf,
    bytes: u64,
    used: SystemTime,
}

/// Removes entries, which are the folders in `folders` and the files in `of_files`, until all
/// together have at most `bytes_max`, or the rest is in use. Returns the bytes that went.
pub fn evict(folders: &[PathBuf], of_files: &[PathBuf], bytes_max: u64) -> io::Result<u64> {
    let mut entries = Vec::new();
    for folder in folders {
        entries.extend(entries_of(folder)?);
    }
    for folder in of_files {
        entries.extend(files_of(folder)?);
    }
    entries.sort_by_key(|entry| entry.used);
    let mut left: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let mut gone = 0;
    for entry in entries {
        if left <= bytes_max {
            break;
        }
        if remove(&entry.path)? {
            left -= entry.bytes;
            gone += entry.bytes;
        }
    }
    Ok(gone)
}

/// Those whose names begin with a dot are not finished, or no entries.
fn entries_of(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    let Ok(listed) = fs::read_dir(folder) else { return Ok(found) };
    for entry in listed {
        let entry = entry?;
        let path = entry.path();
        let name = entry.file_name();
        let name = name.to_string_lossy();
        // One that is gone by now was removed by somebody else.
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !metadata.is_dir() || name.starts_with('.') {
            continue;
        }
        if name.ends_with(GOING) {
            // Whoever began to remove it did not come to the end.
            let _ = fs::remove_dir_all(&path);
            continue;
        }
        let (bytes, used) = (bytes_of(&path), metadata.modified()?);
        found.push(Entry { path, bytes, used });
    }
    Ok(found)
}

/// What is being written is no entry yet; what nobody finished goes.
fn files_of(folder: &Path) -> io::Result<Vec<Entry>> {
    let mut found = Vec::new();
    // A link leads to a folder that is shared with others, who do not know this one's size.
    if folder.is_symlink() {
        return Ok(found);
    }
    let Ok(listed) = fs::read_dir(folder) else { return Ok(found) };
    for entry in listed {
        let path = entry?.path();
        let Ok(metadata) = fs::symlink_metadata(&path) else { continue };
        if !metadata.is_file() {
            continue;
        }
        let used = metadata.modified()?;
        if path.extension().is_some_and(|extension| extension == UNFINISHED) {
            if used.elapsed().is_ok_and(|age| age > WRITING_MAX) {
                let _ = fs::remove_file(&path);
            }
            continue;
        }
        found.push(Entry { path, bytes: metadata.len(), used });
    }
    Ok(found)
}

/// Links do not count: what they lead to is counted where it is.
fn bytes_of(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let bytes = entries.map(|entry| match fs::symlink_metadata(entry.path()) {
        Ok(metadata) if metadata.is_dir() => bytes_of(&entry.path()),
        Ok(metadata) if metadata.is_file() => metadata.len(),
        _ => 0,
    });
    bytes.sum()
}

/// Removes an entry that nobody holds; false where somebody does. A folder loses its name first:
/// half an entry must not look like one.
fn remove(path: &Path) -> io::Result<bool> {
    if path.is_file() {
        return Ok(fs::remove_file(path).is_ok());
    }
    let Ok(folder) = File::open(path) else { return Ok(false) };
    if folder.try_lock().is_err() {
        return Ok(false);
    }
    let mut going = path.as_os_str().to_owned();
    going.push(GOING);
    fs::rename(path, &going)?;
    fs::remove_dir_all(&going)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::slice::from_ref;

    use super::*;

    /// An entry of `bytes`, used so many seconds ago.
    fn entry(folder: &Path, name: &str, bytes: usize, seconds: u64) {
        let path = folder.join(name);
        fs::create_dir_all(path.join("below")).unwrap();
        fs::write(path.join("below/file"), vec![0; bytes]).unwrap();
        let used = SystemTime::now() - Duration::from_secs(seconds);
        File::open(path).unwrap().set_modified(used).unwrap();
    }

    fn left(folder: &Path) -> Vec<String> {
        let names = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_least_recently_used_go_and_those_in_use_stay() {
        let cache = tempfile::tempdir().unwrap();
        let (one, other) = (cache.path().join("objects"), cache.path().join("tokens"));
        entry(&one, "oldest", 100, 40);
        entry(&one, "held", 100, 30);
        entry(&other, "old", 100, 20);
        entry(&other, "new", 100, 10);
        entry(&other, ".unfinished-x", 100, 50);
        let folders = [one.clone(), other.clone(), cache.path().join("absent")];
        assert_eq!(evict(&folders, &[], 400).unwrap(), 0);
        let held = Held::default();
        held.hold(&one.join("held")).unwrap();
        assert_eq!(evict(&folders, &[], 300).unwrap(), 100);
        assert_eq!((left(&one), left(&other)), (vec!["held".into()], left(&other)));
        // The held one was used just now, and stays even where nothing may.
        assert_eq!(evict(&folders, &[], 200).unwrap(), 100);
        assert_eq!(left(&other), [".unfinished-x", "new"]);
        assert_eq!(evict(&folders, &[], 0).unwrap(), 100);
        assert_eq!(left(&one), ["held"]);
        drop(held);
        assert_eq!(evict(&folders, &[], 0).unwrap(), 100);
        assert!(left(&one).is_empty());
    }

    #[test]
    fn what_was_half_removed_goes() {
        let cache = tempfile::tempdir().unwrap();
        entry(cache.path(), "a.going", 10, 1);
        assert_eq!(evict(&[cache.path().to_owned()], &[], 100).unwrap(), 0);
        assert!(left(cache.path()).is_empty());
    }

    #[test]
    fn files_go_like_folders_and_what_is_being_written_stays() {
        let cache = tempfile::tempdir().unwrap();
        let (folders, files) = (cache.path().join("tokens"), cache.path().join("executables"));
        entry(&folders, "old", 100, 30);
        entry(&folders, "new", 100, 10);
        fs::create_dir(&files).unwrap();
        for (name, seconds) in
            [("a.xla", 40), ("b.xla", 20), ("c.1.part", 50), ("d.1.part", 100_000)]
        {
            let file = File::create(files.join(name)).unwrap();
            file.set_len(100).unwrap();
            file.set_modified(SystemTime::now() - Duration::from_secs(seconds)).unwrap();
        }
        let evict = |bytes_max| evict(from_ref(&folders), from_ref(&files), bytes_max).unwrap();
        assert_eq!(evict(200), 200);
        assert_eq!(
            (left(&folders), left(&files)),
            (vec!["new".into()], vec!["b.xla".into(), "c.1.part".into()])
        );
        assert_eq!(evict(0), 200);
        assert_eq!(left(&files), ["c.1.part"]);
    }
}
