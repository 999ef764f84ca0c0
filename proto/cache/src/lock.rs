//! Shared locks on the entries in use.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

/// Entries in use. Clones share their locks, which are released with the last clone.
///
/// On a file system without locks, locking fails and eviction removes nothing.
#[derive(Clone, Debug, Default)]
pub struct EntryLocks {
    locks: Arc<Mutex<Vec<File>>>,
}

impl EntryLocks {
    /// Marks an entry as used now and protects it from eviction. Fails with
    /// [`ErrorKind::NotFound`] if it does not exist or was evicted meanwhile.
    pub fn lock(&self, entry: &Path) -> io::Result<()> {
        let folder = File::open(entry)?;
        folder.lock_shared()?;
        // Eviction may have removed the entry while this waited for the lock.
        let (locked, current) = (folder.metadata()?, fs::metadata(entry)?);
        if (locked.dev(), locked.ino()) != (current.dev(), current.ino()) {
            return Err(ErrorKind::NotFound.into());
        }
        // Fails on another user's entry, whose last use then stays unknown.
        let _ = folder.set_modified(SystemTime::now());
        self.locks.lock().unwrap_or_else(PoisonError::into_inner).push(folder);
        Ok(())
    }

    /// Creates an entry's folder if it does not exist, and locks it. Succeeds without a lock on a
    /// file system that has none.
    pub fn create_and_lock(&self, entry: &Path) -> io::Result<()> {
        loop {
            fs::create_dir_all(entry)?;
            match self.lock(entry) {
                // Evicted between creation and lock.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                _ => return Ok(()),
            }
        }
    }
}
