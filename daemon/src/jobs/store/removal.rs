//! Removal of jobs that have ended. The rows of a job go first, and its id stays noted until its folders
//! are removed, too.

use std::collections::HashSet;

use rusqlite::{Connection, params};

use super::job::state;
use super::{Store, StoreError};
use crate::jobs::state::JobState;

/// The least space that the file returns to the disk.
const SHRINK_BYTES_MIN: u64 = if cfg!(test) { 64 << 10 } else { 64 << 20 };

/// A job that has ended and is beyond the limits of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Removable {
    pub number: i64,
    pub id: String,
    pub name: String,
    pub owner: String,
    pub state: JobState,
    pub output_dir: String,
    /// When it ended, in microseconds since 1970.
    pub end_time: i64,
    /// The size of its events in the store.
    pub bytes: u64,
}

/// Which jobs are beyond the limits of the history: a job that either limit excludes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Beyond {
    /// How many of the newest jobs that have ended are kept.
    pub keep_jobs: Option<u64>,
    /// Jobs that ended before are removed, in microseconds since 1970.
    pub before: Option<i64>,
}

/// Ended jobs up to a number or a time, oldest first. A job with notifications to deliver is not among them.
const REMOVABLE_SQL: &str = "SELECT number, id, name, owner, state, output_dir, end_time,
        (SELECT total(length(event)) FROM events WHERE job = jobs.number) AS bytes
    FROM jobs INDEXED BY jobs_by_state
    WHERE state IN ('completed', 'failed', 'cancelled') AND number > ?1
        AND (number <= ?2 OR end_time < ?3)
        AND NOT EXISTS (SELECT 1 FROM notifications WHERE job = jobs.number)
    ORDER BY number LIMIT ?4";

impl Store {
    /// Lists at most `limit` jobs beyond the limits whose numbers are above `after`, oldest first.
    pub(crate) fn removable(
        &self,
        beyond: Beyond,
        after: i64,
        limit: usize,
    ) -> Result<Vec<Removable>, StoreError> {
        let newest = beyond.keep_jobs.map_or(Ok(None), |keep| self.newest_beyond(keep))?;
        let values = params![after, newest.unwrap_or(-1), beyond.before.unwrap_or(i64::MIN), limit];
        let read = |row: &rusqlite::Row<'_>| {
            Ok(Removable {
                number: row.get("number")?,
                id: row.get("id")?,
                name: row.get("name")?,
                owner: row.get("owner")?,
                state: state(row, "state")?,
                output_dir: row.get("output_dir")?,
                end_time: row.get::<_, Option<i64>>("end_time")?.unwrap_or_default(),
                bytes: row.get::<_, f64>("bytes")? as u64,
            })
        };
        self.many(REMOVABLE_SQL, values, read, "list jobs to remove")
    }

    /// The number of the newest ended job that is not among the `keep` newest ones.
    fn newest_beyond(&self, keep: u64) -> Result<Option<i64>, StoreError> {
        let sql = "SELECT number FROM jobs WHERE state IN ('completed', 'failed', 'cancelled')
                   ORDER BY number DESC LIMIT 1 OFFSET ?1";
        let keep = i64::try_from(keep).unwrap_or(i64::MAX);
        Ok(self.many(sql, [keep], |row| row.get(0), "count ended jobs")?.pop())
    }

    /// Ids of the jobs that unfinished ones need: those that they come after or start from.
    pub(crate) fn needed(&self) -> Result<HashSet<String>, StoreError> {
        let mut needed = HashSet::new();
        for job in self.unfinished()? {
            needed.extend(job.after.clone());
            needed.extend(job.parent.as_ref().map(|parent| parent.job_id.clone()));
        }
        Ok(needed)
    }

    /// Whether a job writes its output below this folder.
    pub(crate) fn has_output_below(&self, folder: &str) -> Result<bool, StoreError> {
        let sql = "SELECT EXISTS (SELECT 1 FROM jobs WHERE output_dir = ?1
                   OR (output_dir >= ?1 || '/' AND output_dir < ?1 || '0'))";
        let found = self.reader().query_row(sql, [folder], |row| row.get(0));
        found.map_err(StoreError::sqlite("look up output folders"))
    }

    /// Removes ended jobs from the store, with their events. Returns the ids of those that are removed: not
    /// of those that a job has come to need meanwhile, or that somebody else has removed.
    pub(crate) fn remove(&self, jobs: &[Removable]) -> Result<Vec<String>, StoreError> {
        self.in_transaction("remove jobs", |transaction| {
            let (needed, mut removed) = (needed_now(transaction)?, Vec::new());
            for job in jobs {
                if !needed.contains(&job.id) && remove(transaction, job)? {
                    removed.push(job.id.clone());
                }
            }
            Ok(removed)
        })
    }

    /// Returns the space of removed rows to the disk where it is most of the file. That copies the other rows, which
    /// take a quarter of the file at most.
    pub(crate) fn shrink(&self) -> Result<(), StoreError> {
        let writer = self.writer();
        let number = |name: &str| -> Result<u64, StoreError> {
            let value = writer.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
            Ok(value.map_err(StoreError::sqlite("read the size"))?.unsigned_abs())
        };
        let (all, free) = (number("page_count")?, number("freelist_count")?);
        if free * number("page_size")? < SHRINK_BYTES_MIN || free < all / 4 * 3 {
            return Ok(());
        }
        writer.execute_batch("VACUUM").map_err(StoreError::sqlite("shrink"))?;
        drop(writer);
        self.checkpoint()
    }

    /// Ids of removed jobs whose folders may still exist.
    pub(crate) fn removals(&self) -> Result<Vec<String>, StoreError> {
        self.many("SELECT id FROM removals", [], |row| row.get(0), "list removed jobs")
    }

    /// Forgets a job whose folders are removed.
    pub(crate) fn removal_done(&self, ids: &[String]) -> Result<(), StoreError> {
        self.in_transaction("forget removed jobs", |transaction| {
            for id in ids {
                transaction.execute("DELETE FROM removals WHERE id = ?1", [id])?;
            }
            Ok(())
        })
    }
}

/// Ids of the jobs that unfinished ones need, as of the transaction of a connection.
fn needed_now(connection: &Connection) -> rusqlite::Result<HashSet<String>> {
    let sql = "SELECT after, parent ->> '$.job_id' FROM jobs
               WHERE state IN ('pending', 'starting', 'running', 'cancelling')";
    let mut needed = HashSet::new();
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        needed.extend(row.get::<_, Option<String>>(0)?);
        needed.extend(row.get::<_, Option<String>>(1)?);
    }
    Ok(needed)
}

/// Returns whether the job was there.
fn remove(connection: &Connection, job: &Removable) -> rusqlite::Result<bool> {
    let is_known = "SELECT EXISTS (SELECT 1 FROM jobs WHERE number = ?1)";
    if !connection.prepare_cached(is_known)?.query_row([job.number], |row| row.get::<_, bool>(0))? {
        return Ok(false);
    }
    let sums = "UPDATE removed_costs SET (billed_seconds, cost, saved, energy_joules) = (
            SELECT removed_costs.billed_seconds + job.billed_seconds,
                cost + ifnull(job.billed_seconds * job.price_per_hour / 3600, 0),
                saved + ifnull(job.billed_seconds
                    * (job.on_demand_price_per_hour - job.price_per_hour) / 3600, 0),
                CASE WHEN job.energy_joules IS NULL THEN removed_costs.energy_joules
                    ELSE ifnull(removed_costs.energy_joules, 0) + job.energy_joules END
            FROM jobs AS job WHERE job.number = ?1)";
    connection.prepare_cached(sums)?.execute([job.number])?;
    connection.execute("UPDATE jobs SET after = NULL WHERE after = ?1", [&job.id])?;
    for table in ["events", "splits"] {
        let sql = format!("DELETE FROM {table} WHERE job = ?1");
        connection.prepare_cached(&sql)?.execute([job.number])?;
    }
    let deleted = connection.execute("DELETE FROM jobs WHERE number = ?1", [job.number])?;
    connection.execute("INSERT OR IGNORE INTO removals (id) VALUES (?1)", [&job.id])?;
    Ok(deleted == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::state::Outcome;
    use crate::jobs::store::{NewJob, Parent};

    fn store(ended: usize) -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_draft(&folder.path().join("traind.db")).unwrap();
        for number in 0..ended {
            let id = number.to_string();
            let output_dir = format!("/out/{id}");
            let price_per_hour = Some(3600.0);
            store
                .create(&NewJob { id: id.clone(), output_dir, price_per_hour, ..NewJob::default() })
                .unwrap();
            store.place(&id, &[0]).unwrap();
            store.settle_at(&id, Outcome::Completed, None, number as i64).unwrap();
        }
        (folder, store)
    }

    fn ids(store: &Store, keep_jobs: Option<u64>, before: Option<i64>) -> String {
        let found = store.removable(Beyond { keep_jobs, before }, 0, 100).unwrap();
        found.into_iter().map(|job| job.id).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn jobs_beyond_either_limit_are_removed() {
        let (_folder, store) = store(5);
        store.create(&NewJob { id: "waits".into(), ..NewJob::default() }).unwrap();
        assert_eq!(ids(&store, None, None), "");
        assert_eq!(ids(&store, Some(2), None), "0 1 2");
        assert_eq!(ids(&store, Some(9), None), "");
        assert_eq!(ids(&store, Some(4), Some(2)), "0 1");
        assert_eq!(ids(&store, Some(0), None), "0 1 2 3 4");
    }

    #[test]
    fn a_removed_job_leaves_its_costs_and_until_its_folders_are_removed_its_id() {
        let (_folder, store) = store(3);
        let before = store.billed().unwrap();
        let all = store.removable(Beyond { keep_jobs: Some(0), before: None }, 0, 100).unwrap();
        assert!(all.iter().all(|job| job.bytes > 0));
        assert_eq!(store.remove(&all[..2]).unwrap(), ["0", "1"]);
        assert!(store.get("0").is_err() && store.get("2").is_ok());
        let after = store.billed().unwrap();
        assert!((after.seconds - before.seconds).abs() < 1e-9, "{before:?} {after:?}");
        assert!((after.cost - before.cost).abs() < 1e-9, "{before:?} {after:?}");
        assert_eq!(store.removals().unwrap(), ["0", "1"]);
        assert!(store.ids().unwrap().contains("0"));
        store.removal_done(&store.removals().unwrap()).unwrap();
        assert!(!store.ids().unwrap().contains("0"));
    }

    #[test]
    fn jobs_that_others_need_are_kept_and_ended_ones_forget_theirs() {
        let (_folder, store) = store(2);
        let new = |id: &str| NewJob {
            id: id.into(),
            output_dir: format!("/out/{id}"),
            after: Some("0".into()),
            parent: Some(Parent { job_id: "1".into(), step: 3 }),
            ..NewJob::default()
        };
        store.create(&new("waits")).unwrap();
        let mut needed: Vec<String> = store.needed().unwrap().into_iter().collect();
        needed.sort();
        assert_eq!(needed, ["0", "1"]);
        let all = store.removable(Beyond { keep_jobs: Some(0), before: None }, 0, 100).unwrap();
        assert_eq!(store.remove(&all).unwrap(), [""; 0], "as if it was submitted meanwhile");
        store.cancel("waits", "").unwrap();
        assert_eq!(store.remove(&all).unwrap(), ["0", "1"]);
        assert_eq!(store.get("waits").unwrap().after, None);
    }

    #[test]
    fn two_who_remove_the_same_jobs_at_once_remove_each_once() {
        let (_folder, store) = store(3);
        let before = store.billed().unwrap();
        let all = store.removable(Beyond { keep_jobs: Some(0), before: None }, 0, 100).unwrap();
        assert_eq!(store.remove(&all[..2]).unwrap(), ["0", "1"]);
        assert_eq!(store.remove(&all).unwrap(), ["2"], "the others were listed before");
        let after = store.billed().unwrap();
        assert!((after.cost - before.cost).abs() < 1e-9, "{before:?} {after:?}");
    }

    /// SQLite keeps the space of removed rows in its file.
    #[test]
    fn the_file_of_a_store_shrinks_once_most_of_it_is_free() {
        let (folder, store) = store(0);
        for number in 0..100 {
            let (id, job_file) = (number.to_string(), "x".repeat(8000));
            let output_dir = format!("/out/{id}");
            let new = NewJob { id: id.clone(), output_dir, job_file, ..NewJob::default() };
            store.create(&new).unwrap();
            store.cancel(&id, "").unwrap();
        }
        let size = || {
            store.checkpoint().unwrap();
            std::fs::metadata(folder.path().join("traind.db")).unwrap().len()
        };
        let keep = |count| {
            let beyond = Beyond { keep_jobs: Some(count), before: None };
            store.remove(&store.removable(beyond, 0, 1000).unwrap()).unwrap();
            store.shrink().unwrap();
            size()
        };
        let whole = size();
        assert_eq!(keep(60), whole, "most of it is in use");
        let left = keep(5);
        assert!(left < whole / 3, "{left} of {whole} bytes");
        assert_eq!(store.ids().unwrap().len(), 100, "removed ones are noted");
        assert!(store.get("99").is_ok() && store.get("2").is_err());
    }

    /// A long history stays within its limits.
    #[test]
    fn the_history_is_bounded() {
        let (folder, store) = store(1);
        let mut size = 0;
        for round in 0..6 {
            for number in 0..300 {
                let id = format!("{round}-{number}");
                let output_dir = format!("/out/{id}");
                store.create(&NewJob { id: id.clone(), output_dir, ..NewJob::default() }).unwrap();
                store.cancel(&id, "").unwrap();
            }
            let beyond = Beyond { keep_jobs: Some(100), before: None };
            store.remove(&store.removable(beyond, 0, 1000).unwrap()).unwrap();
            store.removal_done(&store.removals().unwrap()).unwrap();
            assert_eq!(store.ids().unwrap().len(), 100);
            store.checkpoint().unwrap();
            let now = std::fs::metadata(folder.path().join("traind.db")).unwrap().len();
            assert!(round < 2 || now <= size + size / 10, "{now} bytes after {size}");
            size = now;
        }
    }
}
