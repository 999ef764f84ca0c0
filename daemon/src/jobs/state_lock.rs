//! A lock that keeps two daemons from using one state folder. It ends with its process.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Seek, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::OFlags;

use crate::host::process::Stat;

/// How long to wait for a lock whose holder is dead. A launcher that a killed daemon had just
/// forked shares the lock until it executes another program, milliseconds later.
const INHERITED_MAX: Duration = Duration::from_secs(5);
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
        // The holder's number is written to no other file.
        options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
        let mut file = options.open(path).map_err(io_error)?;
        let start = Instant::now();
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(source)) => return Err(io_error(source)),
                Err(TryLockError::WouldBlock) => {}
            }
            let holder = fs::read_to_string(path).map_err(io_error)?.trim().to_owned();
            if is_alive(&holder) || start.elapsed() > INHERITED_MAX {
                return Err(LockError::Held { path: path.to_owned(), holder });
            }
            std::thread::sleep(RETRY);
        }
        write_holder(&mut file).map_err(io_error)?;
        Ok(StateLock { _file: file })
    }
}

/// Whether `pid` is the id of a running process.
fn is_alive(pid: &str) -> bool {
    pid.parse().is_ok_and(|pid| Stat::read(pid).is_ok_and(|stat| !stat.ended))
}

fn write_holder(file: &mut File) -> io::Result<()> {
    file.set_len(0)?;
    file.rewind()?;
    writeln!(file, "{}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_daemon_gets_an_error_that_names_the_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        let first = StateLock::acquire(&path).unwrap();
        let error = StateLock::acquire(&path).unwrap_err().to_string();
        assert!(error.contains(&format!("pid {}", std::process::id())), "{error}");
        drop(first);
        StateLock::acquire(&path).unwrap();
    }

    #[test]
    fn a_lock_inherited_from_a_dead_daemon_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("daemon.lock");
        // Like a launcher: an open file that a dead daemon locked.
        let inherited = StateLock::acquire(&path).unwrap();
        let mut dead = std::process::Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        fs::write(&path, format!("{}\n", dead.id())).unwrap();
        let exec = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            drop(inherited);
        });
        StateLock::acquire(&path).unwrap();
        exec.join().unwrap();
    }
}
