//! Prepares waiting jobs, so that their first step follows their start at once.
//!
//! One job is prepared at a time, by a process of the lowest priority (`supervisor::before_jobs`), and only the
//! first jobs of the queue are, so that their entries in the caches are not evicted before they are used. The
//! process is killed when any job starts, and when its own job is cancelled.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use traind_job_file::JobFile;
use traind_job_file::commands::PrepareAnswer;
use traind_proto::v1;
use traind_proto::v1::event::Kind;

use super::charge;
use super::daemon::Daemon;
use crate::host::meter::Meter;
use crate::jobs::state::JobState;
use crate::jobs::store::{Job, Store, StoreError};
use crate::jobs::supervisor::before_jobs::preparation::{Preparation, PreparationError};
use crate::settings::Settings;

/// The number of jobs that are prepared, counted from the front of the queue.
const AHEAD_MAX: usize = 2;
/// Delay before a host on which a runner starts is looked at again.
const POLL: Duration = Duration::from_secs(1);
/// The longest wait between two looks at the queue.
const IDLE: Duration = Duration::from_secs(60);
const FAILED: &str = "PREPARATION_FAILED";

/// Wakes the task that prepares jobs.
#[derive(Debug, Default)]
pub(crate) struct Preparer {
    changed: Notify,
}

impl Preparer {
    /// Notes that jobs were placed, wait now or were cancelled.
    pub(super) fn queue_changed(&self) {
        self.changed.notify_one();
    }
}

/// Prepares waiting jobs until the daemon closes or drains.
pub(super) async fn run(daemon: Arc<Daemon>) {
    let mut tried = Tried::default();
    let mut next = IDLE;
    loop {
        tokio::select! {
            () = daemon.closing.cancelled() => return,
            () = daemon.draining.cancelled() => return,
            () = daemon.preparer.changed.notified() => {}
            () = tokio::time::sleep(next) => {}
        }
        next = match prepare_next(&daemon, &mut tried).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "look for a job to prepare");
                IDLE
            }
        };
    }
}

/// Prepares the next job, if there is one. Returns when to look again if nothing happens before.
async fn prepare_next(daemon: &Arc<Daemon>, tried: &mut Tried) -> Result<Duration, StoreError> {
    let (settings, known) = (daemon.settings.clone(), tried.clone());
    let found = daemon.store.run(move |store| look(store, &settings, known)).await?;
    *tried = found.tried;
    let Some(Candidate { job, is_ready }) = found.candidate else { return Ok(IDLE) };
    if found.is_starting {
        return Ok(POLL);
    }
    let (id, owner, meter) = (job.id.clone(), job.owner.clone(), Meter::default());
    let ended = prepare(daemon, Arc::unwrap_or_clone(job), &meter).await;
    let host = daemon.settings.clone();
    daemon.store.run(move |store| charge::charge(store, &host.host, &owner, &meter)).await;
    if let Some(ended) = ended {
        tried.insert(&id, is_ready || ended.is_ok());
        report(daemon, id, is_ready, ended).await?;
    }
    Ok(Duration::ZERO)
}

/// Prepares a job, and adds the processor time for it to `meter`. Returns `None` if it was interrupted, or if the job
/// is not to be prepared any more.
async fn prepare(
    daemon: &Arc<Daemon>,
    job: Job,
    meter: &Meter,
) -> Option<Result<PrepareAnswer, PreparationError>> {
    let (id, settings) = (job.id.clone(), daemon.settings.clone());
    let work = async {
        let of_job = settings.clone();
        let new = tokio::task::spawn_blocking(move || {
            let resolved = serde_json::from_str(&job.resolved);
            Preparation::new(&of_job, job, resolved.map_err(std::io::Error::other)?)
        });
        let preparation = new.await.map_err(std::io::Error::other)??;
        preparation.run(&settings, meter).await
    };
    tokio::pin!(work);
    loop {
        tokio::select! {
            ended = &mut work => return Some(ended),
            () = daemon.closing.cancelled() => return None,
            () = daemon.draining.cancelled() => return None,
            () = daemon.preparer.changed.notified() => {
                if !is_undisturbed(daemon, &id).await {
                    return None;
                }
            }
        }
    }
}

/// Whether the job still waits, and no other starts.
async fn is_undisturbed(daemon: &Daemon, id: &str) -> bool {
    let unfinished = daemon.store.run(Store::unfinished).await.unwrap_or_default();
    let waits = |job: &Arc<Job>| job.id == id && job.state == JobState::Pending;
    unfinished.iter().any(waits) && !unfinished.iter().any(|job| starts_here(job))
}

/// Stores how a preparation ended. `is_ready`: the job needs nothing of an earlier job.
async fn report(
    daemon: &Daemon,
    id: String,
    is_ready: bool,
    ended: Result<PrepareAnswer, PreparationError>,
) -> Result<(), StoreError> {
    let event = match ended {
        Ok(PrepareAnswer::Prepared { programs, compiled, seconds }) => {
            tracing::info!(job = id, programs, compiled, seconds, "prepared");
            Kind::Prepared(v1::Prepared { programs, compiled, seconds })
        }
        // The job's run would fail, too.
        Ok(PrepareAnswer::Failed { message }) if is_ready => {
            let message = format!("the job could not be prepared while it waits: {message}");
            Kind::Warning(v1::Warning { code: FAILED.to_owned(), message })
        }
        Ok(PrepareAnswer::Failed { message }) => {
            tracing::debug!(job = id, message, "prepare a job that comes after another");
            return Ok(());
        }
        Err(error) => {
            tracing::info!(job = id, %error, "prepare a job");
            return Ok(());
        }
    };
    daemon.store.run(move |store| store.record_preparation(&id, event)).await.map(drop)
}

/// The jobs that were prepared or failed to be, with whether that is final: a job that needs the output of an
/// earlier one is tried again.
#[derive(Clone, Debug, Default)]
struct Tried(HashMap<String, bool>);

impl Tried {
    fn insert(&mut self, id: &str, is_final: bool) {
        self.0.insert(id.to_owned(), is_final);
    }

    fn excludes(&self, candidate: &Candidate) -> bool {
        self.0.get(&candidate.job.id).is_some_and(|is_final| *is_final || !candidate.is_ready)
    }
}

#[derive(Debug)]
struct Candidate {
    job: Arc<Job>,
    /// Whether all jobs that must complete before it have.
    is_ready: bool,
}

struct Found {
    candidate: Option<Candidate>,
    /// Whether a runner starts on this host.
    is_starting: bool,
    tried: Tried,
}

/// Finds the first waiting job that is to be prepared.
fn look(store: &Store, settings: &Settings, mut tried: Tried) -> Result<Found, StoreError> {
    let unfinished = store.unfinished()?;
    let ids: HashSet<&str> = unfinished.iter().map(|job| job.id.as_str()).collect();
    tried.0.retain(|id, _| ids.contains(id.as_str()));
    let is_starting = unfinished.iter().any(|job| starts_here(job));
    let before = store.predecessors(&unfinished)?;
    let is_ready = |job: &Job| match &job.after {
        Some(id) => before.get(id) == Some(&JobState::Completed),
        None => true,
    };
    let waiting = unfinished.into_iter().filter(|job| may_prepare(job, settings));
    let candidates = waiting.map(|job| Candidate { is_ready: is_ready(&job), job }).collect();
    for candidate in front(candidates) {
        if tried.excludes(&candidate) {
            continue;
        }
        let job = store.get(&candidate.job.id)?;
        if !asks_for_it(&job) {
            tried.insert(&job.id, true);
            continue;
        }
        let candidate = Some(Candidate { job: Arc::new(job), ..candidate });
        return Ok(Found { candidate, is_starting, tried });
    }
    Ok(Found { candidate: None, is_starting, tried })
}

/// Whether the daemon starts a runner for the job at the moment.
fn starts_here(job: &Job) -> bool {
    job.state == JobState::Starting && !job.is_elsewhere()
}

/// Whether the job waits for its first start on this host. The scheduler gives a reason to every job that it does
/// not start at once.
fn may_prepare(job: &Job, settings: &Settings) -> bool {
    job.state == JobState::Pending
        && job.attempt == 0
        && !job.waiting_reason.is_empty()
        && !job.is_elsewhere()
        && job.platform == settings.host.platform
        && job.core_count <= settings.host.core_count()
}

/// The first jobs of the queue: those that wait only for cores before those that come after others.
fn front(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let order = |it: &Candidate| (!it.is_ready, std::cmp::Reverse(it.job.priority), it.job.number);
    candidates.sort_by_key(order);
    candidates.truncate(AHEAD_MAX);
    candidates
}

fn asks_for_it(job: &Job) -> bool {
    serde_json::from_str::<JobFile>(&job.resolved).is_ok_and(|job| job.resources.prepare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::scheduler::{Reason, Waiting};
    use crate::jobs::store::NewJob;

    fn store() -> (tempfile::TempDir, Store) {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        (folder, store)
    }

    /// Adds a job that waits for one core.
    fn add(store: &Store, id: &str, change: impl FnOnce(NewJob) -> NewJob) {
        let job_file = "{name: a, model: {name_or_path: ./a, task: masked-lm}, \
                        data: {train: a.csv}, output_dir: out}";
        let parsed = JobFile::parse(job_file, std::path::Path::new("/")).unwrap();
        let resolved = serde_json::to_string(&parsed.job).unwrap();
        let (platform, output_dir) = ("cpu".to_owned(), format!("/out/{id}"));
        let new = NewJob {
            id: id.into(),
            platform,
            core_count: 1,
            output_dir,
            resolved,
            ..NewJob::default()
        };
        store.create(&change(new)).unwrap();
        let reason = Reason::lasting("needs 1 core".to_owned());
        store.wait(&[Waiting { id: id.to_owned(), reason }]).unwrap();
    }

    fn same(new: NewJob) -> NewJob {
        new
    }

    /// The jobs that are prepared one after the other, if each preparation succeeds or fails.
    fn prepared(store: &Store, succeeds: bool) -> Vec<String> {
        let (mut tried, mut ids) = (Tried::default(), Vec::new());
        loop {
            let found = look(store, &Settings::example(), tried).unwrap();
            tried = found.tried;
            let Some(Candidate { job, is_ready }) = found.candidate else { return ids };
            tried.insert(&job.id, is_ready || succeeds);
            ids.push(job.id.clone());
        }
    }

    #[test]
    fn the_first_jobs_of_the_queue_are_prepared_once() {
        let (_folder, store) = store();
        add(&store, "z", |new| NewJob { engine: "slurm".into(), ..new });
        add(&store, "a", |new| NewJob { after: Some("z".into()), ..new });
        add(&store, "b", same);
        add(&store, "c", same);
        add(&store, "d", |new| NewJob { priority: 1, ..new });
        assert_eq!(prepared(&store, true), ["d", "b"]);
        store.cancel("d", "").unwrap();
        assert_eq!(prepared(&store, true), ["b", "c"]);
        store.cancel("b", "").unwrap();
        assert_eq!(prepared(&store, true), ["c", "a"]);
    }

    #[test]
    fn jobs_that_do_not_wait_here_or_do_not_ask_are_not_prepared() {
        let (_folder, store) = store();
        add(&store, "elsewhere", |new| NewJob { engine: "slurm".into(), ..new });
        add(&store, "other", |new| NewJob { platform: "neuron".into(), ..new });
        add(&store, "wide", |new| NewJob { core_count: 100_000, ..new });
        add(&store, "again", same);
        store.place("again", &[0]).unwrap();
        store.requeue("again", "interrupted").unwrap();
        add(&store, "without", |new| NewJob {
            resolved: new.resolved.replace("\"prepare\":true", "\"prepare\":false"),
            ..new
        });
        assert_eq!(prepared(&store, true), Vec::<String>::new());
    }

    #[test]
    fn a_job_that_needs_another_is_tried_again_when_that_has_completed() {
        let (_folder, store) = store();
        add(&store, "first", same);
        add(&store, "second", |new| NewJob { after: Some("first".into()), ..new });
        store.place("first", &[0]).unwrap();
        let look = |tried| look(&store, &Settings::example(), tried).unwrap();
        let found = look(Tried::default());
        assert!(found.is_starting && found.candidate.is_some_and(|it| it.job.id == "second"));
        let mut tried = Tried::default();
        tried.insert("second", false);
        let found = look(tried);
        assert!(found.candidate.is_none());
        store.settle("first", crate::jobs::state::Outcome::Completed, None).unwrap();
        assert!(look(found.tried).candidate.is_some_and(|it| it.is_ready));
    }
}
