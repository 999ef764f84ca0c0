//! The folders of the jobs that have not ended.

use rusqlite::{Connection, OptionalExtension, params};

use super::job::{NewJob, optional};
use super::{Store, StoreError};
use crate::access::account::Account;
use crate::jobs::state::JobState;

/// The folders that an unfinished job writes, as its job file spells them.
#[derive(Clone, Debug)]
pub(crate) struct JobFolders {
    /// The number of the job, in the order of submission.
    pub number: i64,
    pub id: String,
    pub output_dir: String,
    pub checkpoint_dir: Option<String>,
}

/// The folders of a job and whose they are, whether it has ended or not.
#[derive(Clone, Debug)]
pub(crate) struct FoldersOfUser {
    pub number: i64,
    pub id: String,
    pub owner: String,
    pub run_as: Option<Account>,
    pub output_dir: String,
    pub checkpoint_dir: Option<String>,
}

/// Unfinished jobs after a number. A job whose record is damaged must not block others.
pub(super) const NEWER_SQL: &str = "SELECT number, id, output_dir,
        CASE WHEN json_valid(resolved) THEN json_extract(resolved, '$.checkpoint_dir') END
    FROM jobs INDEXED BY jobs_by_state
    WHERE number > ?1 AND state IN ('pending', 'starting', 'running', 'cancelling')
    ORDER BY number";

/// The oldest unfinished job with one of two folders, each looked up in an index of its own.
pub(super) const SHARED_SQL: &str = "SELECT number, id, state, output_dir, checkpoint_dir FROM (
        SELECT number, id, state, output_dir,
            CASE WHEN json_valid(resolved) THEN json_extract(resolved, '$.checkpoint_dir') END
                AS checkpoint_dir
        FROM jobs INDEXED BY unfinished_by_output
        WHERE state IN ('pending', 'starting', 'running', 'cancelling') AND output_dir IN (?1, ?2)
        UNION ALL
        SELECT number, id, state, output_dir,
            CASE WHEN json_valid(resolved) THEN json_extract(resolved, '$.checkpoint_dir') END
        FROM jobs INDEXED BY unfinished_by_checkpoints
        WHERE state IN ('pending', 'starting', 'running', 'cancelling')
            AND CASE WHEN json_valid(resolved) THEN json_extract(resolved, '$.checkpoint_dir') END
                IN (?1, ?2)
    ) ORDER BY number LIMIT 1";

impl Store {
    /// Returns the folders of unfinished jobs with numbers above `number`.
    pub(crate) fn folders_after(&self, number: i64) -> Result<Vec<JobFolders>, StoreError> {
        let read = |row: &rusqlite::Row<'_>| {
            let (number, id) = (row.get(0)?, row.get(1)?);
            Ok(JobFolders { number, id, output_dir: row.get(2)?, checkpoint_dir: row.get(3)? })
        };
        self.many(NEWER_SQL, [number], read, "list the folders of jobs")
    }

    /// Returns the folders of at most `limit` jobs with numbers above `number`, in their order.
    pub(crate) fn folders_of_users(
        &self,
        number: i64,
        limit: usize,
    ) -> Result<Vec<FoldersOfUser>, StoreError> {
        let read = |row: &rusqlite::Row<'_>| {
            Ok(FoldersOfUser {
                number: row.get("number")?,
                id: row.get("id")?,
                owner: row.get("owner")?,
                run_as: optional(row, "run_as")?,
                output_dir: row.get("output_dir")?,
                checkpoint_dir: row.get("checkpoint_dir")?,
            })
        };
        let sql = "SELECT number, id, owner, run_as, output_dir,
                CASE WHEN json_valid(resolved) THEN json_extract(resolved, '$.checkpoint_dir') END
                    AS checkpoint_dir
            FROM jobs WHERE number > ?1 ORDER BY number LIMIT ?2";
        self.many(sql, params![number, limit], read, "list the folders of users")
    }
}

/// An unfinished job that writes to a folder.
struct Occupant {
    id: String,
    /// Absent where another version wrote a state that this one does not know.
    state: Option<JobState>,
    output_dir: String,
    checkpoint_dir: Option<String>,
}

impl Occupant {
    fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Occupant> {
        let state: String = row.get("state")?;
        Ok(Occupant {
            id: row.get("id")?,
            state: state.parse().ok(),
            output_dir: row.get("output_dir")?,
            checkpoint_dir: row.get("checkpoint_dir")?,
        })
    }
}

/// Refuses folders that another unfinished job writes to: that of its output and that of its
/// checkpoints. The control plane has compared their places on the disk before.
pub(super) fn refuse_shared_output(
    connection: &Connection,
    new: &NewJob,
) -> Result<(), StoreError> {
    let resolved: serde_json::Value = serde_json::from_str(&new.resolved).unwrap_or_default();
    let own = resolved.get("checkpoint_dir").and_then(serde_json::Value::as_str);
    let folders = [("output_dir", Some(new.output_dir.as_str())), ("checkpoint_dir", own)];
    let find = || {
        let mut statement = connection.prepare_cached(SHARED_SQL)?;
        statement.query_row(params![new.output_dir, own], Occupant::read).optional()
    };
    let found = find().map_err(StoreError::sqlite("look up the output folder"))?;
    let Some(Occupant { id, state: Some(state), output_dir, checkpoint_dir }) = found else {
        return Ok(());
    };
    let theirs = [Some(output_dir.as_str()), checkpoint_dir.as_deref()];
    let shared =
        folders.into_iter().find(|(_, folder)| folder.is_some() && theirs.contains(folder));
    let (field, folder) = shared.unwrap_or(folders[0]);
    let folder = folder.unwrap_or_default().to_owned();
    Err(StoreError::FolderInUse { field, folder, id, state })
}
