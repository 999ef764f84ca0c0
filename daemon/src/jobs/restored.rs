//! A job that was restored from a backup and may be in its cluster: what the daemon of the backup had submitted when
//! the backup was made, or has submitted since, still runs there and is found before the job is submitted again.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use traind_durable::replace;

use super::cluster::ClusterJob;
use super::run_dir::RunDir;

/// The note about such a job, among its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Restored {
    /// Microseconds since 1970 at which the store was copied.
    pub time: i64,
    /// The first attempt that may be in the cluster. Earlier ones had ended when the backup was made.
    pub since_attempt: u32,
    /// The run folder to which the runners report, if the backup says where it was.
    pub run_dir: Option<PathBuf>,
    /// The cluster's job that was found and is followed.
    pub follows: Option<ClusterJob>,
}

impl Restored {
    /// Reads the note; `None` for a job that was not restored, or whose cluster was asked.
    pub(crate) fn read(run_dir: &RunDir) -> io::Result<Option<Restored>> {
        match fs::read(path(run_dir)) {
            Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes)?)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes the note. Durable on return.
    pub(crate) fn write(&self, run_dir: &RunDir) -> io::Result<()> {
        replace(&path(run_dir), &serde_json::to_vec(self)?)
    }

    /// Removes the note: from now on, the daemon's own submissions are all that the cluster has.
    pub(crate) fn remove(run_dir: &RunDir) -> io::Result<()> {
        match fs::remove_file(path(run_dir)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// The folder to which the runners of the followed job report, for display.
    pub(crate) fn folder(&self) -> String {
        let unknown = || "a folder that the backup does not name".to_owned();
        self.run_dir.as_deref().map(Path::display).map_or_else(unknown, |path| path.to_string())
    }
}

fn path(run_dir: &RunDir) -> PathBuf {
    run_dir.record().with_file_name("restored.json")
}
