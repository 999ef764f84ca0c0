//! Compiled executables on disk, content-addressed and shared by processes.
//!
//! A file holds a checksum and the plugin's own serialization. It is written
//! aside, synced and renamed, so a reader sees all of it or none; one that does
//! not match its checksum is treated as absent and written anew.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use traind_durable::Replacement;

use crate::error::{Error, Result};

const CHECKSUM_BYTES: usize = blake3::OUT_LEN;
const EXTENSION: &str = "xla";
/// The extension of an error with which a compiler refused a program.
const REFUSED: &str = "refused";
/// The most keys on which hosts agree.
const AGREED_MAX: usize = 1024;

/// A folder of executables, keyed by everything that determines them.
#[derive(Clone, Debug)]
pub struct ExecutableCache {
    folder: PathBuf,
    /// The only keys that are read, if the hosts of a job have agreed on them.
    agreed: Option<Arc<BTreeSet<String>>>,
    /// Whether processes take turns to compile a program.
    takes_turns: bool,
}

impl ExecutableCache {
    /// Opens the cache, creating its folder.
    pub fn open(folder: &Path) -> Result<ExecutableCache> {
        let error = |source| Error::Io { action: "create", path: folder.to_owned(), source };
        fs::create_dir_all(folder).map_err(error)?;
        Ok(ExecutableCache { folder: folder.to_owned(), agreed: None, takes_turns: true })
    }

    /// Reads no other keys than `agreed`, which all hosts of a job have: so all compile a program, or none does.
    /// Hosts that share the folder then compile at the same time.
    pub fn restricted_to(self, agreed: BTreeSet<String>) -> ExecutableCache {
        ExecutableCache { agreed: Some(Arc::new(agreed)), takes_turns: false, ..self }
    }

    /// Makes no other process wait for a program that this one compiles, which is slow where it has a low priority.
    /// Both then compile it.
    pub fn without_turns(self) -> ExecutableCache {
        ExecutableCache { takes_turns: false, ..self }
    }

    /// The keys that were used last, as many as hosts agree on.
    pub fn newest_keys(&self) -> Result<BTreeSet<String>> {
        let error = |source| Error::Io { action: "list", path: self.folder.clone(), source };
        let mut found = Vec::new();
        for entry in fs::read_dir(&self.folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let path = entry.path();
            let key = path.file_stem().and_then(|stem| stem.to_str());
            // One that is evicted meanwhile is left out.
            let used = entry.metadata().and_then(|metadata| metadata.modified());
            if let (Some(key), Ok(used)) = (key, used)
                && path.extension().is_some_and(|extension| extension == EXTENSION)
            {
                found.push((used, key.to_owned()));
            }
        }
        found.sort_unstable();
        Ok(found.into_iter().rev().take(AGREED_MAX).map(|(_, key)| key).collect())
    }

    /// The serialized executable under `key`, if a whole one is there.
    pub fn get(&self, key: &str) -> Option<Vec<u8>> {
        if self.agreed.as_ref().is_some_and(|agreed| !agreed.contains(key)) {
            return None;
        }
        let path = self.path(key);
        let mut content = fs::read(&path).ok()?;
        if content.len() < CHECKSUM_BYTES {
            return None;
        }
        // Those that are used stay the longest where the cache has a size.
        let _ = File::open(&path).and_then(|file| file.set_modified(SystemTime::now()));
        let executable = content.split_off(CHECKSUM_BYTES);
        (content == blake3::hash(&executable).as_bytes()).then_some(executable)
    }

    /// Stores an executable; the newest of concurrent writers wins.
    pub fn put(&self, key: &str, executable: &[u8]) -> Result<()> {
        let path = self.path(key);
        let error = |source| Error::Io { action: "write", path: path.clone(), source };
        // A name that is lost in a crash costs a compilation; waiting for the folder costs each.
        let file = Replacement::of(&path).by_many().without_folder();
        let written = file.write(|file| {
            file.write_all(blake3::hash(executable).as_bytes())?;
            file.write_all(executable)
        });
        written.map_err(error)
    }

    /// The error with which a compiler refused the program of `key` before, and the file that keeps it.
    pub(super) fn refusal(&self, key: &str) -> Option<(String, PathBuf)> {
        let path = self.path(key).with_extension(REFUSED);
        let text = fs::read_to_string(&path).ok().filter(|text| !text.is_empty())?;
        Some((text, path))
    }

    /// Remembers that a compiler refuses the program of `key`.
    pub(super) fn put_refusal(&self, key: &str, text: &str) -> Result<()> {
        let path = self.path(key).with_extension(REFUSED);
        let error = |source| Error::Io { action: "write", path: path.clone(), source };
        let file = Replacement::of(&path).by_many().without_folder();
        file.write(|file| file.write_all(text.as_bytes())).map_err(error)
    }

    /// Waits for the process that makes the executable of `key`, if there is one, and keeps others
    /// waiting until the lock is dropped. `None` on a file system without locks, and where processes take no turns.
    pub(super) fn lock(&self, key: &str) -> Option<KeyLock> {
        if !self.takes_turns {
            return None;
        }
        // Eviction leaves unfinished files alone.
        let path = self.folder.join(format!("{key}.lock.part"));
        let file = File::create(&path).ok()?;
        file.lock().ok()?;
        Some(KeyLock { path, _file: file })
    }

    fn path(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.{EXTENSION}"))
    }
}

/// The right to make the executable of a key. A process that is killed loses it.
#[derive(Debug)]
pub(super) struct KeyLock {
    path: PathBuf,
    _file: File,
}

impl Drop for KeyLock {
    /// Processes that wait have the file open; one that comes now makes another, and looks for the
    /// executable first.
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_locked_by_one_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::open(folder.path()).unwrap();
        let lock = cache.lock("key").unwrap();
        let held = File::open(&lock.path).unwrap();
        assert!(held.try_lock().is_err());
        let other_key = cache.lock("other").unwrap();
        let waiting = std::thread::spawn({
            let cache = cache.clone();
            move || {
                let _lock = cache.lock("key").unwrap();
                cache.get("key")
            }
        });
        cache.put("key", b"program").unwrap();
        drop((lock, other_key));
        assert_eq!(waiting.join().unwrap().as_deref(), Some(&b"program"[..]));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "locks leave no files");
    }

    #[test]
    fn a_cache_without_turns_neither_waits_nor_keeps_others_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::open(folder.path()).unwrap();
        let free = cache.clone().without_turns();
        let lock = cache.lock("key").unwrap();
        assert!(free.lock("key").is_none());
        drop(lock);
        let _none = free.lock("key");
        assert!(File::create(cache.folder.join("key.lock.part")).unwrap().try_lock().is_ok());
        free.put("key", b"program").unwrap();
        assert_eq!(cache.get("key").as_deref(), Some(&b"program"[..]));
    }

    #[test]
    fn a_refusal_is_remembered_and_is_no_executable() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::open(folder.path()).unwrap();
        assert_eq!(cache.refusal("key"), None);
        cache.put_refusal("key", "[NCC_EVRF029] Operation sort").unwrap();
        let (text, path) = cache.refusal("key").unwrap();
        assert_eq!(text, "[NCC_EVRF029] Operation sort");
        assert_eq!((cache.get("key"), cache.refusal("other")), (None, None));
        assert!(cache.newest_keys().unwrap().is_empty());
        fs::remove_file(path).unwrap();
        assert_eq!(cache.refusal("key"), None);
    }

    #[test]
    fn a_use_is_noted() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::open(folder.path()).unwrap();
        cache.put("key", b"program").unwrap();
        File::open(cache.path("key")).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        cache.get("key").unwrap();
        let used = cache.path("key").metadata().unwrap().modified().unwrap();
        assert!(used > SystemTime::UNIX_EPOCH);
    }

    #[test]
    fn only_keys_that_all_hosts_have_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::open(folder.path()).unwrap();
        for key in ["own", "common"] {
            cache.put(key, key.as_bytes()).unwrap();
        }
        let _lock = cache.lock("own").unwrap();
        assert_eq!(cache.newest_keys().unwrap(), ["common", "own"].map(str::to_owned).into());
        let agreed = cache.clone().restricted_to(["common".to_owned()].into());
        assert_eq!(agreed.get("common").as_deref(), Some(&b"common"[..]));
        assert_eq!(agreed.get("own"), None);
        assert!(agreed.lock("own").is_none(), "nobody waits for another host");
    }

    /// Entries have no number of their format: this version reads what the first one wrote, and writes the same.
    #[test]
    fn entries_are_as_the_first_version_wrote_them() {
        let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/executables/key.xla");
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::open(folder.path()).unwrap();
        cache.put("key", b"program").unwrap();
        if std::env::var_os("TRAIND_WRITE_FIXTURES").is_some() && !kept.exists() {
            fs::create_dir_all(kept.parent().unwrap()).unwrap();
            fs::copy(cache.path("key"), &kept).unwrap();
        }
        assert_eq!(fs::read(cache.path("key")).unwrap(), fs::read(&kept).unwrap());
        fs::copy(&kept, cache.path("kept")).unwrap();
        assert_eq!(cache.get("kept").as_deref(), Some(&b"program"[..]));
    }

    #[test]
    fn a_damaged_entry_is_absent() {
        let folder = tempfile::tempdir().unwrap();
        let cache = ExecutableCache::open(folder.path()).unwrap();
        assert_eq!(cache.get("key"), None);
        cache.put("key", b"program").unwrap();
        assert_eq!(cache.get("key").as_deref(), Some(&b"program"[..]));

        let path = cache.path("key");
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            fs::write(&path, &whole[..length]).unwrap();
            assert_eq!(cache.get("key"), None, "truncated to {length} bytes");
        }
        for position in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[position] ^= 1;
            fs::write(&path, flipped).unwrap();
            assert_eq!(cache.get("key"), None, "bit flipped in byte {position}");
        }
    }
}
