//! Space on the disk of the state folder that is kept for requests to cancel a job: cancelling is how a user
//! ends what fills the disk.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate};

use crate::jobs::store::StoreError;

/// Far above the pages of the store that a request changes.
const BYTES: u64 = 1 << 20;

/// The reserved space.
#[derive(Clone, Debug)]
pub(crate) struct Reserve {
    path: PathBuf,
}

impl Reserve {
    /// The reserve of a state folder, filled if the disk has room.
    pub(crate) fn of(state_dir: &Path) -> Reserve {
        let reserve = Reserve { path: state_dir.join("reserve") };
        reserve.refill();
        reserve
    }

    /// Runs `work`, and if the disk is full, once more with the reserved space.
    pub(crate) fn spend_on<T>(
        &self,
        work: impl Fn() -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        match work() {
            Err(error) if error.is_full_disk() && fs::remove_file(&self.path).is_ok() => {
                tracing::warn!(%error, "the disk of the state folder is full; use its reserve");
                work()
            }
            done => {
                self.refill();
                done
            }
        }
    }

    /// Reserves the space again, once there is room.
    fn refill(&self) {
        if self.path.exists() {
            return;
        }
        if let Err(error) = self.allocate() {
            tracing::warn!(%error, "reserve space in the state folder for requests to cancel");
            let _ = fs::remove_file(&self.path);
        }
    }

    fn allocate(&self) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600).open(&self.path)?;
        Ok(fallocate(file, FallocateFlags::empty(), 0, BYTES)?)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn full() -> StoreError {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_FULL);
        StoreError::sqlite("commit")(rusqlite::Error::SqliteFailure(code, None))
    }

    #[test]
    fn the_reserve_is_spent_once_and_filled_again() {
        let folder = tempfile::tempdir().unwrap();
        let reserve = Reserve::of(folder.path());
        assert_eq!(fs::metadata(&reserve.path).unwrap().len(), BYTES);
        let tries = Cell::new(0);
        let needs_space = || {
            tries.set(tries.get() + 1);
            if reserve.path.exists() { Err(full()) } else { Ok(()) }
        };
        reserve.spend_on(needs_space).unwrap();
        assert_eq!((tries.get(), reserve.path.exists()), (2, false));
        assert!(reserve.spend_on(|| Err::<(), _>(full())).is_err(), "nothing is left");
        reserve.spend_on(|| Ok(())).unwrap();
        assert!(reserve.path.exists());
    }
}
