//! Follows one runner: copies its event log into the store until its process has ended.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use traind_proto::event_log::EventLogError;
use traind_proto::{reasons, v1};

use super::heartbeat::Heartbeat;
use super::process::RunnerProcess;
use super::runner_status::runner_status;
use super::stop::{Stop, StopAction, StopRequests};
use super::{PERIOD, RETRY, Supervisor};
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{Job, Store, StoreError};

/// The end of a runner whose process has exited and whose log has been read.
pub(super) struct Ended {
    pub(super) job: Job,
    pub(super) exit: Option<ExitStatus>,
    pub(super) killed: bool,
    /// Why the daemon stopped the runner: it hung, exceeded its time limit, or its log is unreadable.
    pub(super) trouble: Option<v1::Failure>,
}

/// Follows one runner.
pub(super) struct Follower {
    supervisor: Supervisor,
    /// The job as of the last stored event.
    job: Job,
    run_dir: RunDir,
    /// `None` if the process ended before this daemon started.
    process: Option<RunnerProcess>,
    stop: Stop,
    requests: StopRequests,
    heartbeat: Heartbeat,
    /// An event of this runner was stored, so it has the log open.
    has_reported: bool,
    /// The runner hung or exceeded its time limit.
    overdue: Option<v1::Failure>,
    /// The event log cannot be read.
    damage: Option<v1::Failure>,
}

#[derive(Debug, thiserror::Error)]
enum FollowError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Log(#[from] EventLogError),
}

impl Follower {
    pub(super) fn new(
        supervisor: Supervisor,
        job: Job,
        run_dir: RunDir,
        process: Option<RunnerProcess>,
        requests: StopRequests,
    ) -> Follower {
        let stop = Stop::new(supervisor.settings.grace_period);
        let heartbeat = Heartbeat::new(supervisor.settings.hang_timeout, Instant::now());
        Follower {
            supervisor,
            job,
            run_dir,
            process,
            stop,
            requests,
            heartbeat,
            has_reported: false,
            overdue: None,
            damage: None,
        }
    }

    /// Returns once the runner has ended; `None` if the daemon closes before.
    pub(super) async fn run(mut self) -> Option<Ended> {
        loop {
            // Checked before the log is read, so that its last events are not missed.
            let ended = self.process.as_ref().is_none_or(RunnerProcess::has_ended);
            match self.copy_events(ended).await {
                Ok(()) if ended => break,
                Ok(()) => {
                    self.check_progress().await;
                    self.stop_if_requested();
                }
                Err(error) => {
                    tracing::error!(job = self.job.id, %error, "store events; will try again");
                    self.supervisor.pause(RETRY).await?;
                }
            }
            self.supervisor.pause(PERIOD).await?;
        }
        let exit = self.reap();
        let trouble = self.damage.or(self.overdue);
        // A request to cancel may have been stored since the last event.
        let id = self.job.id.clone();
        let job = self.supervisor.store.run(move |store| store.get(&id)).await.unwrap_or(self.job);
        Some(Ended { job, exit, killed: self.stop.killed(), trouble })
    }

    /// Stores the events that the runner has written since the last call. After a power failure the
    /// log may end within an event, until the next runner truncates it.
    async fn copy_events(&mut self, ended: bool) -> Result<(), FollowError> {
        let path = self.run_dir.events_log();
        while self.damage.is_none() {
            let (length, offset) = (length(&path)?, self.job.log_offset);
            if length < offset {
                self.damage = Some(cut_short(&path));
            }
            if length <= offset {
                break;
            }
            let (run_dir, id) = (self.run_dir.clone(), self.job.id.clone());
            let (store, may_be_torn) = (&self.supervisor.store, ended || !self.has_reported);
            let stored =
                store.run(move |store| copy(store, &run_dir, &id, offset, may_be_torn)).await;
            match stored {
                Ok(Some(job)) => {
                    self.job = job;
                    self.has_reported = true;
                }
                Ok(None) => break,
                Err(FollowError::Log(error)) if is_damage(&error) => {
                    self.damage = Some(damage(&error));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Notices a runner that hangs or has run out of time.
    async fn check_progress(&mut self) {
        let ending = self.overdue.is_some() || self.job.finished.is_some();
        if !ending && self.is_out_of_time() {
            self.overdue = Some(overtime(&self.job));
            return;
        }
        if ending || !self.heartbeat.is_due(Instant::now()) {
            return;
        }
        let status = runner_status(self.run_dir.socket()).await;
        let step = self.job.progress.as_ref().map_or(0, |progress| progress.step);
        let logged = (self.job.log_offset, step);
        self.overdue = self.heartbeat.observe(Instant::now(), logged, status.as_ref());
        if let Some(hung) = &mut self.overdue {
            hung.message.push_str(&format!(" on cores {:?}", self.job.cores));
            tracing::warn!(job = self.job.id, hung.message, "hung");
        }
    }

    /// Uses monotonic time, since the clock may be set.
    fn is_out_of_time(&self) -> bool {
        let limit = self.job.max_run_seconds.map(Duration::from_secs);
        let elapsed = self.process.as_ref().map(|process| process.since.elapsed());
        limit.zip(elapsed).is_some_and(|(limit, elapsed)| elapsed >= limit)
    }

    /// Signals or kills the runner if it is to stop.
    fn stop_if_requested(&mut self) {
        let Some(process) = &self.process else { return };
        let preempted = self.requests.preempt.get().is_some();
        let cancelled = self.requests.cancel.is_cancelled();
        let requested = cancelled || preempted || self.supervisor.draining.is_cancelled();
        let requested = requested || self.damage.is_some() || self.overdue.is_some();
        let finished = self.job.finished.is_some();
        let signalled = match self.stop.next_action(Instant::now(), requested, finished) {
            StopAction::None => Ok(()),
            StopAction::Signal if cancelled => process.cancel(),
            StopAction::Signal => process.interrupt(),
            StopAction::Kill => process.kill(),
        };
        if let Err(error) = signalled {
            tracing::error!(job = self.job.id, %error, "signal the runner");
        }
    }

    fn reap(&mut self) -> Option<ExitStatus> {
        let reaped = self.process.as_mut()?.reap();
        reaped
            .inspect_err(|error| tracing::warn!(job = self.job.id, %error, "reap the runner"))
            .ok()
            .flatten()
    }
}

/// Copies a chunk of the log into the store; `None` if it has no complete event yet.
fn copy(
    store: &Store,
    run_dir: &RunDir,
    id: &str,
    offset: u64,
    may_be_torn: bool,
) -> Result<Option<Job>, FollowError> {
    let log = run_dir.open_events_log()?;
    let logged = match log.read_from(offset) {
        Err(EventLogError::Corrupt { .. }) if may_be_torn && log.is_torn(offset)? => {
            return Ok(None);
        }
        logged => logged?,
    };
    let Some(end) = logged.last().map(|last| last.next_offset) else { return Ok(None) };
    log.sync()?;
    let events = logged.into_iter().map(|logged| logged.event).collect();
    Ok(Some(store.record(id, events, end)?))
}

/// Returns the length of the log; 0 if it does not exist yet.
fn length(path: &Path) -> Result<u64, EventLogError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(EventLogError::Io { action: "stat", path: path.to_owned(), source }),
    }
}

/// The failure of a runner whose log was removed or truncated under it.
fn cut_short(path: &Path) -> v1::Failure {
    let path = path.display();
    let message = format!("{path}, to which the runner writes, was removed or cut short");
    let reason = reasons::RUN_DIRECTORY_FAILED.to_owned();
    v1::Failure { reason, message, file: Some(path.to_string()), ..Default::default() }
}

fn overtime(job: &Job) -> v1::Failure {
    let message = format!("ran longer than {} s", job.max_run_seconds.unwrap_or_default());
    let reason = reasons::MAX_RUN_EXCEEDED.to_owned();
    let field = Some("resources.max_run_seconds".to_owned());
    v1::Failure { reason, message, field, ..Default::default() }
}

/// Whether the error is permanent: the log is corrupt, or the file is not a log.
fn is_damage(error: &EventLogError) -> bool {
    match error {
        EventLogError::Corrupt { .. } => true,
        EventLogError::Io { source, .. } => source.kind() == io::ErrorKind::InvalidData,
        EventLogError::Locked { .. } | EventLogError::TooLarge { .. } => false,
    }
}

fn damage(error: &EventLogError) -> v1::Failure {
    let (reason, message) = (reasons::EVENT_LOG_CORRUPT.to_owned(), error.to_string());
    v1::Failure { reason, message, ..Default::default() }
}
