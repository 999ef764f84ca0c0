//! The folder in which a set is being written. A writer that died leaves its folder behind, which
//! may be large: the next writer removes it, since it is no longer locked.

use std::fs::{self, File};
use std::path::Path;

use tempfile::TempDir;

use crate::error::{Error, Result};

const PREFIX: &str = ".unfinished-";

/// The file that is locked while folders are created and removed, so that no new one counts as abandoned.
const LOCK: &str = ".lock";

/// A folder that is locked as long as its writer lives, and removed when it is dropped.
pub(super) struct Unfinished {
    folder: TempDir,
    /// The lock on the folder itself. On a file system without locks nothing is ever removed.
    _lock: File,
}

impl Unfinished {
    /// A new folder in `beside`, from which those of dead writers are removed.
    pub(super) fn create(beside: &Path) -> Result<Self> {
        Self::try_create(beside).map_err(Error::store(beside))
    }

    fn try_create(beside: &Path) -> std::io::Result<Self> {
        fs::create_dir_all(beside)?;
        let turn = File::options().create(true).append(true).open(beside.join(LOCK))?;
        let _ = turn.lock();
        remove_abandoned(beside)?;
        let folder = tempfile::Builder::new().prefix(PREFIX).tempdir_in(beside)?;
        let lock = File::open(folder.path())?;
        let _ = lock.lock();
        Ok(Self { folder, _lock: lock })
    }

    /// A new folder among those for temporary files.
    pub(super) fn temporary() -> Result<Self> {
        let among = std::env::temp_dir();
        let create = || {
            let folder = TempDir::new()?;
            let lock = File::open(folder.path())?;
            Ok(Self { folder, _lock: lock })
        };
        create().map_err(Error::store(&among))
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }
}

fn remove_abandoned(beside: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(beside)? {
        let entry = entry?;
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) {
            continue;
        }
        // A missing one was renamed or removed by its writer.
        let Ok(folder) = File::open(entry.path()) else { continue };
        if folder.try_lock().is_ok() {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_dead_writers_are_removed_and_those_of_others_stay() {
        let beside = tempfile::tempdir().unwrap();
        let dead = beside.path().join(format!("{PREFIX}dead"));
        fs::create_dir(&dead).unwrap();
        fs::write(dead.join("input_ids.u32"), "tokens").unwrap();
        fs::create_dir(beside.path().join("finished")).unwrap();
        let first = Unfinished::create(beside.path()).unwrap();
        assert!(!dead.exists());
        let second = Unfinished::create(beside.path()).unwrap();
        assert!(first.path().exists() && beside.path().join("finished").exists());
        let path = second.path().to_owned();
        drop(second);
        assert!(!path.exists());
    }
}
