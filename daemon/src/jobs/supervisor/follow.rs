//! Following one runner: its event log into the store, and its process to the end.

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

/// What is known when the runner is gone and its log is read to the end.
pub(super) struct Ended {
    pub(super) job: Job,
    pub(super) exit: Option<ExitStatus>,
    pub(super) killed: bool,
    /// Why the daemon ended the runner: it hung or ran too long, or its log cannot be read on.
    pub(super) trouble: Option<v1::Failure>,
}

/// The follower of one runner.
pub(super) struct Follower {
    supervisor: Supervisor,
    /// As of the last event stored.
    job: Job,
    run_dir: RunDir,
    /// Absent if it was gone before this daemon came.
    process: Option<RunnerProcess>,
    stop: Stop,
    requests: StopRequests,
    heartbeat: Heartbeat,
    /// An event was stored: its runner has the log open.
    heard: bool,
    /// It hung, or ran out of its time.
    overdue: Option<v1::Failure>,
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
            heard: false,
            overdue: None,
            damage: None,
        }
    }

    /// Returns when the runner has ended, or `None` when the daemon closes.
    pub(super) async fn run(mut self) -> Option<Ended> {
        loop {
            // Looked at before the log is: what the runner wrote before its end is read then.
            let gone = self.process.as_ref().is_none_or(RunnerProcess::has_ended);
            match self.drain(gone).await {
                Ok(()) if gone => break,
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

    /// Stores what the runner has written since the last time. Where a machine went down, the log
    /// may end with what it had of an event, until the next runner begins and cuts that off.
    async fn drain(&mut self, gone: bool) -> Result<(), FollowError> {
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
            let (store, may_be_torn) = (&self.supervisor.store, gone || !self.heard);
            let stored =
                store.run(move |store| copy(store, &run_dir, &id, offset, may_be_torn)).await;
            match stored {
                Ok(Some(job)) => {
                    self.job = job;
                    self.heard = true;
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

    /// Measured without the clock, which somebody may set.
    fn is_out_of_time(&self) -> bool {
        let longest = self.job.max_run_seconds.map(Duration::from_secs);
        let ran = self.process.as_ref().map(|process| process.since.elapsed());
        longest.zip(ran).is_some_and(|(longest, ran)| ran >= longest)
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

/// Copies a chunk of the log into the store; `None` if there is no whole event yet.
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

/// Nothing, for a log that is not there yet.
fn length(path: &Path) -> Result<u64, EventLogError> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(metadata.len()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(0),
        Err(source) => Err(EventLogError::Io { action: "look at", path: path.to_owned(), source }),
    }
}

/// A runner that nobody can hear is of no use.
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

/// Whether waiting will not help: the bytes are wrong, or it is no log at all.
fn is_damage(error: &EventLogError) -> bool {
    match error {
        EventLogError::Corrupt { .. } => true,
        EventLogError::Io { source, .. } => source.kind() == io::ErrorKind::InvalidData,
        _ => false,
    }
}

fn damage(error: &EventLogError) -> v1::Failure {
    let (reason, message) = (reasons::EVENT_LOG_CORRUPT.to_owned(), error.to_string());
    v1::Failure { reason, message, ..Default::default() }
}
