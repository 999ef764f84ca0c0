//! The jobs that have not ended, kept in memory: the scheduler looks at all of them after each change, and
//! a queue may be long.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rusqlite::OptionalExtension;

use super::job::{SUMMARY, state};
use super::{Job, Store, StoreError};
use crate::jobs::state::JobState;

/// Unfinished jobs. `None` until they are first asked for.
#[derive(Default)]
pub(super) struct Unfinished(Mutex<Option<Known>>);

#[derive(Default)]
struct Known {
    /// The jobs by their number.
    jobs: BTreeMap<i64, Arc<Job>>,
    /// How many jobs wait, by owner.
    pending: HashMap<String, usize>,
}

impl Known {
    fn put(&mut self, job: Arc<Job>) {
        if job.state == JobState::Pending {
            *self.pending.entry(job.owner.clone()).or_default() += 1;
        }
        if let Some(before) = self.jobs.insert(job.number, job) {
            self.count_out(&before);
        }
    }

    fn remove(&mut self, number: i64) {
        if let Some(before) = self.jobs.remove(&number) {
            self.count_out(&before);
        }
    }

    fn count_out(&mut self, job: &Job) {
        let Some(count) = self.pending.get_mut(&job.owner) else { return };
        *count -= usize::from(job.state == JobState::Pending);
        if *count == 0 {
            self.pending.remove(&job.owner);
        }
    }
}

impl Unfinished {
    /// Notes a change that was committed. The caller holds the writer, so that changes arrive in order.
    pub(super) fn note(&self, changed: &[Job]) {
        let mut known = self.lock();
        let Some(known) = known.as_mut() else { return };
        for job in changed {
            match job.state.is_terminal() {
                true => known.remove(job.number),
                false => known.put(Arc::new(summary(job))),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Known>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The job without its long texts.
fn summary(job: &Job) -> Job {
    Job { job_file: String::new(), resolved: String::new(), ..job.clone() }
}

impl Store {
    /// Lists jobs that have not ended, in the order of submission, without their long texts. Reads the
    /// store only the first time.
    pub(crate) fn unfinished(&self) -> Result<Vec<Arc<Job>>, StoreError> {
        self.with_unfinished(|known| known.jobs.values().cloned().collect())
    }

    /// The number of waiting jobs of some owners. The time for it depends on the number of owners only.
    pub(crate) fn pending_of(&self, is_one: impl Fn(&str) -> bool) -> Result<usize, StoreError> {
        self.with_unfinished(|known| {
            known.pending.iter().filter(|(owner, _)| is_one(owner)).map(|(_, count)| count).sum()
        })
    }

    fn with_unfinished<T>(&self, look: impl Fn(&Known) -> T) -> Result<T, StoreError> {
        if let Some(known) = self.inner.unfinished.lock().as_ref() {
            return Ok(look(known));
        }
        let _no_changes = self.writer();
        let mut known = Known::default();
        self.read_unfinished()?.into_iter().for_each(|job| known.put(Arc::new(job)));
        let seen = look(&known);
        *self.inner.unfinished.lock() = Some(known);
        Ok(seen)
    }

    fn read_unfinished(&self) -> Result<Vec<Job>, StoreError> {
        let sql = format!(
            "SELECT {SUMMARY} FROM jobs
             WHERE state IN ('pending', 'starting', 'running', 'cancelling') ORDER BY number"
        );
        self.many(&sql, [], Job::from_row, "list unfinished jobs")
    }

    /// Returns the states of the jobs that pending ones among `unfinished` come after, by id.
    pub(crate) fn predecessors(
        &self,
        unfinished: &[Arc<Job>],
    ) -> Result<HashMap<String, JobState>, StoreError> {
        let waiting = unfinished.iter().filter(|job| job.state == JobState::Pending);
        let mut states = HashMap::new();
        for id in waiting.filter_map(|job| job.after.as_ref()) {
            if states.contains_key(id) {
                continue;
            }
            if let Some(state) = self.state_of(id)? {
                states.insert(id.clone(), state);
            }
        }
        Ok(states)
    }

    /// The state of a job; `None` if the store does not have the job.
    pub(crate) fn state_of(&self, id: &str) -> Result<Option<JobState>, StoreError> {
        let reader = self.reader();
        let query = || {
            let mut statement = reader.prepare_cached("SELECT state FROM jobs WHERE id = ?1")?;
            statement.query_row([id], |row| state(row, "state")).optional()
        };
        query().map_err(StoreError::sqlite("read the state of a job"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::state::Outcome;
    use crate::jobs::store::NewJob;
    use crate::jobs::store::job::decoded;

    const STATES: &str = "state IN ('pending', 'starting', 'running', 'cancelling')";

    fn new_job(number: usize) -> NewJob {
        let (id, output_dir) = (format!("job-{number:05}"), format!("/out/{number}"));
        NewJob { id, output_dir, resolved: "{}".into(), ..NewJob::default() }
    }

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open_draft(&folder.path().join("traind.db")).unwrap();
        (folder, store)
    }

    #[test]
    fn the_jobs_in_memory_are_those_of_the_store() {
        let (_folder, store) = store();
        store.create(&new_job(0)).unwrap();
        let check = || {
            let known: Vec<String> =
                store.unfinished().unwrap().iter().map(|job| format!("{job:?}")).collect();
            let stored: Vec<String> =
                store.read_unfinished().unwrap().iter().map(|job| format!("{job:?}")).collect();
            assert_eq!(known, stored);
            let pending = store.unfinished().unwrap();
            let pending = pending.iter().filter(|job| job.state == JobState::Pending).count();
            assert_eq!(store.pending_of(|_| true).unwrap(), pending);
            assert_eq!(store.pending_of(|owner| owner == "nobody").unwrap(), 0);
            known.len()
        };
        assert_eq!(check(), 1);
        store.create(&new_job(1)).unwrap();
        assert_eq!(check(), 2);
        store.place("job-00000", &[0]).unwrap();
        assert_eq!(check(), 2);
        store.settle("job-00000", Outcome::Completed, None).unwrap();
        assert_eq!(check(), 1);
        store.cancel("job-00001", "").unwrap();
        assert_eq!(check(), 0);
    }

    /// The number of jobs read from the store for a submission does not depend on the queue.
    #[test]
    fn a_submission_to_a_long_queue_reads_no_other_jobs() {
        let (_folder, store) = store();
        store.unfinished().unwrap();
        let reads = |number| {
            let before = decoded();
            store.create(&new_job(number)).unwrap();
            store.get(&format!("job-{number:05}")).unwrap();
            assert_eq!(store.unfinished().unwrap().len(), number + 1);
            decoded() - before
        };
        let first = reads(0);
        for number in 1..2000 {
            assert_eq!(reads(number), first, "at {number} jobs");
        }
    }

    /// No query of a submission or a scrape reads the whole table.
    #[test]
    fn frequent_queries_use_indexes() {
        let (_folder, store) = store();
        let check = |sql: &str| {
            let sql = sql.replace("?1", "'a'").replace("?2", "'b'");
            let plan: Vec<String> = store
                .many(&format!("EXPLAIN QUERY PLAN {sql}"), [], |row| row.get(3), "explain")
                .unwrap();
            let is_indexed = |line: &String| !line.contains("SCAN jobs") || line.contains("INDEX");
            assert!(plan.iter().all(is_indexed), "{sql}: {plan:?}");
        };
        check(super::super::folders::SHARED_SQL);
        check(super::super::folders::NEWER_SQL);
        check("SELECT EXISTS (SELECT 1 FROM jobs WHERE output_dir = 'a')");
        check(
            "SELECT id FROM jobs WHERE owner = 'a' AND output_dir = 'b' ORDER BY number DESC LIMIT 1",
        );
        check(super::super::read::BILLED_SQL);
        check(&format!("SELECT id FROM jobs WHERE {STATES}"));
    }
}
