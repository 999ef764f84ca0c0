//! Backups of a state folder, taken while its daemon runs, and their restoration.
//!
//! A backup is a compressed tar archive: [`MANIFEST`] first, then the store, then the records and the
//! logs of its jobs, and the audit log. The store comes first since it refers to bytes of the logs, which only grow.

mod members;
mod restore;
mod write;

use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::doctor::DoctorError;
use super::store::StoreError;

pub(crate) use restore::restore;
pub(crate) use write::back_up;

/// The first entry of an archive.
const MANIFEST: &str = "backup.json";
/// The entry of the access file.
const ACCESS: &str = "access.yaml";
/// The folder of the audit log, in an archive and in a state folder.
const AUDIT: &str = "audit";
/// The version of the archive's layout. A later version is refused.
const VERSION: u32 = 1;

/// The description of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    pub version: u32,
    /// The version of traind that wrote it.
    pub traind: String,
    /// Microseconds since 1970 at which the store was copied.
    pub time: i64,
    pub jobs: u64,
    /// The state folder, to which the runners of jobs in clusters report. Earlier versions did not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state_dir: Option<String>,
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum BackupError {
    #[error("{action} {path}: {source}", path = .path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    State(#[from] DoctorError),
    #[error("there is no job store {path}; name the daemon's folder with --state-dir", path = .0.display())]
    NoStore(PathBuf),
    #[error("{path} exists already; name another file", path = .0.display())]
    Exists(PathBuf),
    #[error(
        "{path} is not empty; restore into another folder with --state-dir, or move this one away",
        path = .0.display()
    )]
    NotEmpty(PathBuf),
    #[error("{path} is not a backup of traind: {problem}", path = .path.display())]
    NoBackup { path: PathBuf, problem: String },
    #[error(
        "{path} is a backup of version {found}, and this traind reads versions up to {VERSION}; restore it with traind {traind}",
        path = .path.display()
    )]
    Newer { path: PathBuf, found: u32, traind: String },
}

impl BackupError {
    fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> BackupError + use<> {
        let path = path.to_owned();
        move |source| BackupError::Io { action, path, source }
    }
}
