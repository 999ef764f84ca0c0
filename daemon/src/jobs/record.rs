//! Records of accepted jobs, in a folder that only the daemon can write to. With the runners'
//! folders they suffice to rebuild a lost store.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use traind_durable::replace;

use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{NewJob, StoreError, is_blank};

/// The folder of all records.
pub(crate) fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("records")
}

/// Refuses to start without a store if there are records of jobs: a new, empty store would not
/// know those jobs and their runners.
pub(crate) fn refuse_lost_store(state_dir: &Path, store: &Path) -> Result<(), StoreError> {
    let records = folder(state_dir);
    let jobs = fs::read_dir(&records).is_ok_and(|mut entries| entries.next().is_some());
    match is_blank(store) && jobs {
        true => Err(StoreError::Lost { path: store.to_owned(), records }),
        false => Ok(()),
    }
}

/// Writes the record of a job that the store has accepted. Durable on return.
pub(crate) fn write(run_dir: &RunDir, new: &NewJob) -> io::Result<()> {
    run_dir.create(new.run_as)?;
    replace(&run_dir.record(), &serde_json::to_vec(new)?)
}

/// Writes the record of a run that others started, whose folder is linked already. Durable on return.
pub(crate) fn write_adopted(run_dir: &RunDir, new: &NewJob) -> io::Result<()> {
    replace(&run_dir.record(), &serde_json::to_vec(new)?)
}

/// Reads a job's record; `None` if there is none.
pub(crate) fn read(run_dir: &RunDir) -> io::Result<Option<NewJob>> {
    match fs::read(run_dir.record()) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Records that the job was cancelled.
pub(crate) fn cancel(run_dir: &RunDir) -> io::Result<()> {
    run_dir.create(None)?;
    replace(&run_dir.cancelled(), b"")
}
