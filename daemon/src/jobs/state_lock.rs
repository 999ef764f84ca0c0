//! One daemon for a state folder: a lock that dies with its process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::host::process::Stat;

/// A launcher that a killed daemon had just forked shares its lock until it becomes another
/// program, which takes milliseconds.
const HEIR_MAX: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(5);

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
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => return Err(io_error(source)),
                Err(TryLockError::WouldBlock) => {}
            }
            let holder = fs::read_to_string(path).map_err(io_error)?.trim().to_owned();
            if is_alive(&holder) || start.elapsed() > HEIR_MAX {
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            std::thread::sleep(RETRY);
        }
        note_holder(&mut file).map_err(io_error)?;
        Ok(StateLock { _file: file })
    }
}

/// Whether this is the number of a process that has not ended.
fn is_alive(pid: &str) -> bool {
    pid.parse().is_ok_and(|pid| Stat::read(pid).is_ok_and(|stat| !stat.ended))
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

    #[test]
    fn what_a_dead_daemon_left_behind_holds_the_lock_for_a_moment_only() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        // As of a launcher: an open file of a daemon that is no more.
        let heir = StateLock::acquire(&path).unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        fs::write(&path, format!("{}\n", dead.id())).unwrap();
        let becomes_another_program = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(heir);
        });
        StateLock::acquire(&path).unwrap();
        becomes_another_program.join().unwrap();
    }
}
