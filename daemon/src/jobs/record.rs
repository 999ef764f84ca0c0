//! What a job was when it was accepted, in a folder that is the daemon's alone: with the
//! runner's folder enough to make the store anew where the store itself is lost.

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

/// Refuses a store that is gone while there are records of its jobs: a new one in its place would
/// have lost them, and know nothing of their runners.
pub(crate) fn refuse_lost_store(state_dir: &Path, store: &Path) -> Result<(), StoreError> {
    let records = folder(state_dir);
    let jobs = fs::read_dir(&records).is_ok_and(|mut entries| entries.next().is_some());
    match is_blank(store) && jobs {
        true => Err(StoreError::Lost { path: store.to_owned(), records }),
        false => Ok(()),
    }
}

/// Writes the record of a job that the store has taken. Durable when this returns.
pub(crate) fn write(run_dir: &RunDir, new: &NewJob) -> io::Result<()> {
    run_dir.create(new.run_as)?;
    replace(&run_dir.record(), &serde_json::to_vec(new)?)
}

/// `None` where there is none: the folder is of an older daemon.
pub(crate) fn read(run_dir: &RunDir) -> io::Result<Option<NewJob>> {
    match fs::read(run_dir.record()) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Notes that somebody asked for the end of the job.
pub(crate) fn cancel(run_dir: &RunDir) -> io::Result<()> {
    run_dir.create(None)?;
    replace(&run_dir.cancelled(), b"")
}
