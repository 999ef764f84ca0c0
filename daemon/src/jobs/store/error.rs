//! Errors of the store.

use std::path::PathBuf;

use crate::jobs::state::IllegalTransition;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("{action} in the job store: {source}")]
    Sqlite { action: &'static str, source: rusqlite::Error },
    #[error(
        "the job store {path} is damaged: {detail}; rebuild it from the job folders with `traind doctor --rebuild`, or restore a backup"
    )]
    Corrupt { path: PathBuf, detail: String },
    #[error(
        "the job store {path} is missing or empty, but {records} has records of its jobs; rebuild it from them with `traind doctor --rebuild`, or restore a backup"
    )]
    Lost { path: PathBuf, records: PathBuf },
    #[error(
        "the job store {path} is older than the records of its jobs in {records}, so that jobs would be lost or run twice ({count} found, such as: {example}); rebuild it from them with `traind doctor --rebuild`, or restore a backup"
    )]
    Outdated { path: PathBuf, records: PathBuf, count: usize, example: String },
    #[error("list the records of jobs in {path}: {source}")]
    Records { path: PathBuf, source: std::io::Error },
    #[error(
        "the job store has version {found}, and this traind supports up to {known}: start the newer traind that wrote it, or take the store back with its `traind doctor --downgrade={known}`"
    )]
    Newer { found: usize, known: usize },
    #[error(
        "the job store has version {found} and cannot go back to version {wanted}: set --downgrade to a lower version, from 1"
    )]
    NotEarlier { found: usize, wanted: usize },
    #[error("there is no job store {path}: set --state-dir to the daemon's state folder")]
    Missing { path: PathBuf },
    #[error("job {id} is not in the store")]
    NoJob { id: String },
    #[error("job {id}: {source}")]
    Illegal { id: String, source: IllegalTransition },
    #[error(
        "request id {request_id:?} was used for job {id}, which was submitted with another job file"
    )]
    RequestReused { request_id: String, id: String },
    /// `field` of the job file names the folder.
    #[error("{field} {folder} is in use by job {id}, which is {state}")]
    FolderInUse {
        field: &'static str,
        folder: String,
        id: String,
        state: crate::jobs::state::JobState,
    },
}

impl StoreError {
    /// Whether the store's disk has no room.
    pub(crate) fn is_full_disk(&self) -> bool {
        let StoreError::Sqlite { source, .. } = self else { return false };
        source.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull)
    }

    pub(crate) fn sqlite(action: &'static str) -> impl FnOnce(rusqlite::Error) -> StoreError {
        move |source| StoreError::Sqlite { action, source }
    }
}
