//! Examining the state folder of a daemon that is not running, and making its store anew
//! from the job folders where it is damaged.

mod rebuild;
mod retell;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::jobs::record;
use crate::jobs::state_lock::{LockError, StateLock};
use crate::jobs::store::{Store, StoreError, is_blank};

pub(crate) use rebuild::rebuild;

/// The store's file in a state folder.
pub(crate) const STORE: &str = "traind.db";
const LOCK: &str = "daemon.lock";

#[derive(Debug, thiserror::Error)]
pub(crate) enum DoctorError {
    #[error("{0}; stop it first")]
    Running(LockError),
    #[error("there is no state folder {path}; name the daemon's with --state-dir", path = .0.display())]
    NoStateDir(PathBuf),
    #[error(transparent)]
    Lock(LockError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("{action} {path}: {source}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

/// A state folder that no daemon uses meanwhile.
pub(crate) struct Patient {
    state_dir: PathBuf,
    _lock: StateLock,
}

impl Patient {
    pub(crate) fn admit(state_dir: &Path) -> Result<Patient, DoctorError> {
        if !state_dir.is_dir() {
            return Err(DoctorError::NoStateDir(state_dir.to_owned()));
        }
        let lock = StateLock::acquire(&state_dir.join(LOCK)).map_err(|error| match error {
            LockError::Held { .. } => DoctorError::Running(error),
            error => DoctorError::Lock(error),
        })?;
        Ok(Patient { state_dir: state_dir.to_owned(), _lock: lock })
    }

    pub(crate) fn store_path(&self) -> PathBuf {
        self.state_dir.join(STORE)
    }

    /// Everything that is wrong with the store; nothing for a sound one.
    pub(crate) fn examine(&self) -> Result<Vec<String>, DoctorError> {
        if is_blank(&self.store_path()) {
            return Ok(vec![format!("{} is not there or empty", self.store_path().display())]);
        }
        match Store::open(&self.store_path()) {
            Ok(store) => {
                let mut found = store.integrity()?;
                found.extend(self.forgotten(&store)?);
                Ok(found)
            }
            Err(StoreError::Corrupt { detail, .. }) => Ok(vec![detail]),
            Err(error) => Err(error.into()),
        }
    }

    /// Jobs that the store once acknowledged and does not have.
    fn forgotten(&self, store: &Store) -> Result<Vec<String>, DoctorError> {
        let known = store.ids()?;
        let ids = self.job_ids()?.into_iter().filter(|id| !known.contains(id));
        Ok(ids.map(|id| format!("job {id} has a folder and is not in the store")).collect())
    }

    /// Ids of the jobs that have folders.
    fn job_ids(&self) -> Result<Vec<String>, DoctorError> {
        let path = record::folder(&self.state_dir);
        let io_error = |source| DoctorError::Io { action: "list", path: path.clone(), source };
        if !path.exists() {
            return Ok(Vec::new());
        }
        let entries = fs::read_dir(&path).map_err(io_error)?;
        let names = entries.map(|entry| Ok(entry.map_err(io_error)?.file_name()));
        let names: Vec<_> = names.collect::<Result<_, DoctorError>>()?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }
}
