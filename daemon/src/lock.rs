//! One daemon for a state folder: a lock that dies with its process.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Held as long as the daemon lives.
#[derive(Debug)]
pub(crate) struct StateLock {
    _file: File,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum LockError {
    #[error("another daemon (pid {holder}) uses this state folder: it holds {path}")]
    Held { path: PathBuf, holder: String },
    #[error("lock {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl StateLock {
    pub(crate) fn acquire(path: &Path) -> Result<StateLock, LockError> {
        let io_error = |source| LockError::Io { path: path.to_owned(), source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let mut file = options.open(path).map_err(io_error)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut holder = String::new();
                file.read_to_string(&mut holder).map_err(io_error)?;
                let holder = holder.trim().to_owned();
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            Err(TryLockError::Error(source)) => return Err(io_error(source)),
        }
        note_holder(&mut file).map_err(io_error)?;
        Ok(StateLock { _file: file })
    }
}

fn note_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_is_told_who_the_first_is() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        let first = StateLock::acquire(&path).unwrap();
        let error = StateLock::acquire(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        StateLock::acquire(&path).unwrap();
    }
}
