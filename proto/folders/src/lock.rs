//! The lock that a run holds in a folder while it writes there. It is `flock`'s, so it ends with the process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use traind_durable::{open_regular, read_regular};

use crate::{NOTE_BYTES_MAX, NOTES, note};

const LOCK: &str = "lock";
/// Attempts to lock; processes that look for the holder lock the file for a moment, too.
const TRIES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(50);

/// The run that writes into a folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Holder {
    /// The id of its job.
    pub job: String,
    /// The name of its job.
    pub name: String,
    pub host: String,
}

impl Holder {
    /// Parses what a holder wrote about itself. Anything else is by an unknown run.
    pub fn parse(text: &[u8]) -> Holder {
        let unknown = || "unknown".to_owned();
        serde_json::from_slice(text).unwrap_or_else(|_| Holder {
            job: unknown(),
            name: unknown(),
            host: unknown(),
        })
    }
}

/// A lock of a folder, held until it is dropped.
#[derive(Debug)]
pub struct FolderLock {
    _file: File,
}

impl FolderLock {
    /// Locks an existing folder, or returns the other run that holds its lock. `None` on a file system without locks.
    pub fn take(folder: &Path, by: &Holder) -> io::Result<Result<Option<FolderLock>, Holder>> {
        fs::create_dir_all(folder.join(NOTES))?;
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(note(folder, LOCK))?;
        for attempt in 1.. {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if attempt < TRIES => sleep(PAUSE),
                Err(TryLockError::WouldBlock) => return Ok(Err(read(folder))),
                Err(TryLockError::Error(error)) if has_no_locks(&error) => return Ok(Ok(None)),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        file.set_len(0)?;
        file.write_all(&serde_json::to_vec(by)?)?;
        Ok(Ok(Some(FolderLock { _file: file })))
    }
}

/// Returns the run that writes into a folder now.
pub fn holder(folder: &Path) -> io::Result<Option<Holder>> {
    let file = match open_regular(&note(folder, LOCK)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => Ok(Some(read(folder))),
        Err(TryLockError::Error(error)) if !has_no_locks(&error) => Err(error),
        _ => Ok(None),
    }
}

/// The run that the file names, which is written just after it is locked.
fn read(folder: &Path) -> Holder {
    Holder::parse(&read_regular(&note(folder, LOCK), NOTE_BYTES_MAX).unwrap_or_default())
}

fn has_no_locks(error: &io::Error) -> bool {
    const ENOLCK: i32 = 37;
    error.kind() == ErrorKind::Unsupported || error.raw_os_error() == Some(ENOLCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(job: &str) -> Holder {
        Holder { job: job.into(), name: format!("name of {job}"), host: "here".into() }
    }

    #[test]
    fn one_run_at_a_time_holds_a_folder() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(holder(folder.path()).unwrap(), None);
        let take = |job: &str| FolderLock::take(folder.path(), &by(job)).unwrap();
        let lock = take("a-long-id").unwrap();
        assert!(lock.is_some());
        assert_eq!(take("b").unwrap_err(), by("a-long-id"));
        assert_eq!(holder(folder.path()).unwrap(), Some(by("a-long-id")));
        drop(lock);
        assert_eq!(holder(folder.path()).unwrap(), None);
        let _lock = take("b").unwrap();
        assert_eq!(holder(folder.path()).unwrap(), Some(by("b")));
    }
}
