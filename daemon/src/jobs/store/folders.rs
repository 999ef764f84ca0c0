//! The folders of the jobs that have not ended.

use rusqlite::{Connection, OptionalExtension, params};

use super::job::{Job, NewJob, SUMMARY};
use super::{Store, StoreError};
use crate::jobs::state::JobState;

/// The folders that an unfinished job writes, as its job file spells them.
#[derive(Clone, Debug)]
pub(crate) struct JobFolders {
    pub id: String,
    pub state: JobState,
    pub output_dir: String,
    pub checkpoint_dir: Option<String>,
}

impl Store {
    /// Returns the folders of all unfinished jobs.
    pub(crate) fn folders_in_use(&self) -> Result<Vec<JobFolders>, StoreError> {
        // A job whose record is damaged must not block others.
        let sql = "SELECT id, state, output_dir,
                CASE WHEN json_valid(resolved) THEN json_extract(resolved, '$.checkpoint_dir') END
            FROM jobs WHERE state IN ('pending', 'starting', 'running', 'cancelling')";
        let read = |row: &rusqlite::Row<'_>| {
            let state: String = row.get(1)?;
            Ok((row.get(0)?, state.parse().ok(), row.get(2)?, row.get(3)?))
        };
        let rows: Vec<(String, Option<JobState>, String, Option<String>)> =
            self.many(sql, [], read, "list the folders of jobs")?;
        let of =
            |(id, state, output_dir, checkpoint_dir): (String, Option<JobState>, String, _)| {
                Some(JobFolders { id, state: state?, output_dir, checkpoint_dir })
            };
        Ok(rows.into_iter().filter_map(of).collect())
    }
}

/// Refuses folders that another unfinished job writes to: that of its output and that of its
/// checkpoints. The control plane has compared their places on the disk before.
pub(super) fn refuse_shared_output(
    connection: &Connection,
    new: &NewJob,
) -> Result<(), StoreError> {
    // A job whose record is damaged must not block others.
    let checkpoint_dir =
        "CASE WHEN json_valid(resolved) THEN json_extract(resolved, '$.checkpoint_dir') END";
    let sql = format!(
        "SELECT {SUMMARY}, {checkpoint_dir} AS checkpoint_dir FROM jobs
         WHERE state IN ('pending', 'starting', 'running', 'cancelling')
         AND (output_dir IN (?1, ?2) OR {checkpoint_dir} IN (?1, ?2))"
    );
    let resolved: serde_json::Value = serde_json::from_str(&new.resolved).unwrap_or_default();
    let own = resolved.get("checkpoint_dir").and_then(serde_json::Value::as_str);
    let folders = [("output_dir", Some(new.output_dir.as_str())), ("checkpoint_dir", own)];
    let read = |row: &rusqlite::Row<'_>| {
        Ok((Job::from_row(row)?, row.get::<_, Option<String>>("checkpoint_dir")?))
    };
    let found = connection.query_row(&sql, params![new.output_dir, own], read).optional();
    let found = found.map_err(StoreError::sqlite("look up the output folder"))?;
    let Some((Job { id, state, output_dir, .. }, checkpoint_dir)) = found else { return Ok(()) };
    let theirs = [Some(output_dir.as_str()), checkpoint_dir.as_deref()];
    let shared =
        folders.into_iter().find(|(_, folder)| folder.is_some() && theirs.contains(folder));
    let (field, folder) = shared.unwrap_or(folders[0]);
    let folder = folder.unwrap_or_default().to_owned();
    Err(StoreError::FolderInUse { field, folder, id, state })
}
