//! Checks the state folder of a stopped daemon, rebuilds a damaged store from the job folders, and takes a store back
//! to an earlier version.

mod downgrade;
mod files;
mod rebuild;
mod replay;

use std::io;
use std::path::{Path, PathBuf};

use crate::jobs::lost_store;
use crate::jobs::record;
use crate::jobs::state_lock::{LockError, StateLock};
use crate::jobs::store::{self, Store, StoreError, is_blank, store_version};

pub(crate) use downgrade::{Downgrade, downgrade};
pub(crate) use rebuild::rebuild;

/// The store's file in a state folder.
pub(crate) const STORE: &str = "traind.db";
pub(crate) const LOCK: &str = "daemon.lock";

#[derive(Debug, thiserror::Error)]
pub(crate) enum DoctorError {
    #[error("{0}; stop it first")]
    Running(LockError),
    #[error("there is no state folder {path}; set it with --state-dir", path = .0.display())]
    NoStateDir(PathBuf),
    #[error(
        "{path} belongs to another account, which could not use what this one writes: run this command as that account, \
         as with sudo -u '#{owner}'", path = .path.display()
    )]
    Foreign { path: PathBuf, owner: u32 },
    #[error(transparent)]
    Lock(LockError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{action} {path}: {source}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// A locked state folder, which no daemon uses.
pub(crate) struct StoppedState {
    state_dir: PathBuf,
    _lock: StateLock,
}

impl StoppedState {
    pub(crate) fn lock(state_dir: &Path) -> Result<StoppedState, DoctorError> {
        if !state_dir.is_dir() {
            return Err(DoctorError::NoStateDir(state_dir.to_owned()));
        }
        let path = state_dir.join(STORE);
        if let Some(owner) = files::foreign_owner(&path) {
            return Err(DoctorError::Foreign { path, owner });
        }
        let lock = StateLock::acquire(&state_dir.join(LOCK)).map_err(|error| match error {
            LockError::Held { .. } => DoctorError::Running(error),
            error => DoctorError::Lock(error),
        })?;
        Ok(StoppedState { state_dir: state_dir.to_owned(), _lock: lock })
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.state_dir.join(STORE)
    }

    /// Checks the store, and does not migrate it. Returns the problems found.
    pub(crate) fn check(&self) -> Result<Vec<String>, DoctorError> {
        if is_blank(&self.store_path()) {
            return Ok(vec![format!("{} is missing or empty", self.store_path().display())]);
        }
        match self.examine() {
            Err(DoctorError::Store(StoreError::Corrupt { detail, .. })) => Ok(vec![detail]),
            examined => examined,
        }
    }

    /// Examines the store, and of one of an earlier version a copy: opening a store migrates it.
    fn examine(&self) -> Result<Vec<String>, DoctorError> {
        let (path, copy) = (self.store_path(), self.state_dir.join("traind.db.checked"));
        files::remove_store(&copy)?;
        if store::version_of(&path)? >= store_version() {
            return self.problems(&path);
        }
        let copied = store::snapshot(&path, &copy).map_err(DoctorError::Store);
        let found = copied.and_then(|_| self.problems(&copy));
        files::remove_store(&copy)?;
        found
    }

    fn problems(&self, path: &Path) -> Result<Vec<String>, DoctorError> {
        let store = Store::open(path)?;
        let mut found = store.integrity()?;
        found.extend(lost_store::problems(&self.state_dir, &store)?);
        Ok(found)
    }

    /// Ids of the jobs that have folders.
    fn job_ids(&self) -> Result<Vec<String>, DoctorError> {
        let path = record::folder(&self.state_dir);
        record::ids(&self.state_dir).map_err(|source| DoctorError::Io {
            action: "list",
            path,
            source,
        })
    }
}
