//! The folders of the jobs that have not ended.

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
