//! Records of accepted jobs, in a folder that only the daemon can write to. With the runners'
//! folders they suffice to rebuild a lost store.

use std::collections::HashSet;
use std::fs::{self, DirBuilder};
use std::io::{self, ErrorKind};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use traind_durable::replace;

use crate::clock;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::NewJob;

/// The folder of all records.
pub(crate) fn folder(state_dir: &Path) -> PathBuf {
    state_dir.join("records")
}

/// Ids of the jobs that have a readable record and are not among `known`, in order.
pub(crate) fn unknown(state_dir: &Path, known: &HashSet<String>) -> io::Result<Vec<String>> {
    let mut unknown = ids(state_dir)?;
    unknown.retain(|id| !known.contains(id));
    unknown.retain(|id| matches!(read(&RunDir::new(state_dir, id)), Ok(Some(_))));
    unknown.sort();
    Ok(unknown)
}

/// Ids of the jobs that have folders of records.
pub(crate) fn ids(state_dir: &Path) -> io::Result<Vec<String>> {
    let entries = match fs::read_dir(folder(state_dir)) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name()));
    let names: Vec<_> = names.collect::<io::Result<_>>()?;
    Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
}

/// Moves the records of a job that cannot be restored out of the daemon's way. Returns their new folder.
pub(crate) fn set_aside(state_dir: &Path, id: &str) -> io::Result<PathBuf> {
    let lost = state_dir.join("records.lost");
    DirBuilder::new().recursive(true).mode(0o700).create(&lost)?;
    let to = lost.join(format!("{id}-{}", clock::now()));
    fs::rename(folder(state_dir).join(id), &to)?;
    Ok(to)
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

/// The newest attempt of a job and its cores. The `run.json` that says the same may be the user's file.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Placement {
    pub attempt: u32,
    pub cores: Vec<u32>,
}

/// Records the cores of an attempt, before it can start.
pub(crate) fn place(run_dir: &RunDir, placement: &Placement) -> io::Result<()> {
    replace(&run_dir.placement(), &serde_json::to_vec(placement)?)
}

/// Reads the newest attempt of a job; `None` if it had none.
pub(crate) fn placement(run_dir: &RunDir) -> Option<Placement> {
    serde_json::from_slice(&fs::read(run_dir.placement()).ok()?).ok()
}

/// Records that the job was cancelled.
pub(crate) fn cancel(run_dir: &RunDir) -> io::Result<()> {
    run_dir.create(None)?;
    replace(&run_dir.cancelled(), b"")
}
