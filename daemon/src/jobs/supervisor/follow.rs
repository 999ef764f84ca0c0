//! Follows one runner: copies its event log into the store until it has ended.

use std::fs;
use std::io;
use std::path::Path;
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use traind_proto::event_log::EventLogError;
use traind_proto::{reasons, v1};

use super::energy::EnergyMeter;
use super::heartbeat::Heartbeat;
use super::runner::{Runner, SignalError};
use super::runner_status::runner_status;
use super::stop::{Stop, StopAction, StopRequests};
use super::{PERIOD, RETRY, Supervisor};
use crate::jobs::cluster::End;
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::JobState;
use crate::jobs::store::{Job, Store, StoreError};

/// The end of a runner whose process has exited and whose log has been read.
pub(super) struct Ended {
    pub(super) job: Job,
    pub(super) exit: Option<ExitStatus>,
    pub(super) killed: bool,
    /// How its cluster says that it ended.
    pub(super) end: Option<End>,
    /// Why the daemon stopped the runner: it hung, exceeded its time limit, or its log is unreadable.
    pub(super) trouble: Option<v1::Failure>,
}

/// Follows one runner.
pub(super) struct Follower {
    supervisor: Supervisor,
    /// The job as of the last stored event.
    job: Job,
    run_dir: RunDir,
    /// `None` if the runner ended before this daemon started.
    runner: Option<Runner>,
    stop: Stop,
    requests: StopRequests,
    heartbeat: Heartbeat,
    energy: EnergyMeter,
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
        runner: Option<Runner>,
        requests: StopRequests,
    ) -> Follower {
        let stop = Stop::new(supervisor.settings.grace_period);
        let heartbeat = Heartbeat::new(supervisor.settings.hang_timeout, Instant::now());
        Follower {
            supervisor,
            job,
            run_dir,
            runner,
            stop,
            requests,
            heartbeat,
            energy: EnergyMeter::new(Instant::now()),
            has_reported: false,
            overdue: None,
            damage: None,
        }
    }

    /// Returns once the runner has ended; `None` if the daemon closes before.
    pub(super) async fn run(mut self) -> Option<Ended> {
        self.measure_energy(false).await;
        let ended = self.until_end().await;
        self.measure_energy(true).await;
        ended?;
        let exit = self.reap();
        let end = self.runner.as_ref().and_then(Runner::end);
        let overtime = || end.as_ref().and_then(|end| limit_reached(&self.job, end));
        let trouble = self.damage.or(self.overdue).or_else(overtime);
        // A request to cancel may have been stored since the last event.
        let id = self.job.id.clone();
        let job = self.supervisor.store.run(move |store| store.get(&id)).await.unwrap_or(self.job);
        Some(Ended { job, exit, killed: self.stop.killed(), end, trouble })
    }

    async fn until_end(&mut self) -> Option<()> {
        loop {
            if self.job.is_adopted() && self.supervisor.draining.is_cancelled() {
                // Others started it, and a later daemon follows it further.
                return None;
            }
            self.ask_cluster().await;
            // Checked before the log is read, so that its last events are not missed.
            let ended = self.runner.as_ref().is_none_or(Runner::has_ended) || self.is_lost();
            match self.copy_events(ended).await {
                Ok(()) if ended => return Some(()),
                Ok(()) => {
                    self.measure_energy(false).await;
                    self.check_progress().await;
                    self.stop_if_requested().await;
                }
                Err(error) => {
                    tracing::error!(job = self.job.id, %error, "store events; will try again");
                    self.supervisor.pause(RETRY).await?;
                }
            }
            self.supervisor.pause(PERIOD).await?;
        }
    }

    /// Whether nothing more will be known of an adopted run, whose processes are others'.
    fn is_lost(&self) -> bool {
        self.damage.is_some() && self.job.is_adopted()
    }

    /// Stores what a cluster reports about the job, or looks for signs of life in an adopted run.
    async fn ask_cluster(&mut self) {
        if let Some(Runner::Adopted(run)) = &mut self.runner {
            run.observe(&self.job, Instant::now());
        }
        let Some(Runner::Cluster(run)) = &mut self.runner else { return };
        match run.watch(&self.supervisor.store, &self.job).await {
            Ok(None) => {}
            Ok(Some(job)) => {
                if job.state == JobState::Cancelling {
                    self.requests.cancel.cancel();
                }
                if job.host_names != self.job.host_names {
                    // One of them may be fenced.
                    self.supervisor.wake.notify_one();
                }
                self.job = job;
            }
            Err(error) => tracing::error!(job = self.job.id, %error, "store the cluster's report"),
        }
    }

    /// Stores the events that the runner has written since the last call. After a power failure the
    /// log may end within an event, until the next runner truncates it.
    async fn copy_events(&mut self, ended: bool) -> Result<(), FollowError> {
        let path = self.run_dir.events_log();
        while self.damage.is_none() {
            let (length, offset) = (length(&path)?, self.job.log_offset);
            if length < offset {
                let linked = self.run_dir.linked().map(|folder| folder.join("events.log"));
                self.damage = Some(cut_short(&linked.unwrap_or(path)));
                break;
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

    /// Adds the energy that a runner on this host has used since the last call. `ends`: it has ended, or
    /// the daemon leaves it.
    async fn measure_energy(&mut self, ends: bool) {
        let now = Instant::now();
        if !matches!(self.runner, Some(Runner::Process(_))) || !(ends || self.energy.is_due(now)) {
            return;
        }
        let (host, cores) = (self.supervisor.settings.host.clone(), self.job.cores.clone());
        let read = tokio::task::spawn_blocking(move || host.energy_joules(&cores)).await;
        self.energy.add(now, read.ok().flatten());
        let Some(joules) = self.energy.take(now, ends) else { return };
        let id = self.job.id.clone();
        match self.supervisor.store.run(move |store| store.add_energy(&id, joules)).await {
            Ok(job) => self.job = job,
            Err(error) => tracing::error!(job = self.job.id, %error, "store the energy of a job"),
        }
    }

    /// The energy that the job has used so far, in joules, if the host reports it.
    fn energy_joules(&self) -> Option<f64> {
        let unstored = self.energy.unstored();
        let stored = self.job.energy_joules;
        let used = unstored.map(|joules| joules + stored.unwrap_or_default()).or(stored);
        // Nothing has been measured yet.
        used.filter(|joules| *joules > 0.0)
    }

    /// Notices a runner that hangs or has run out of time.
    async fn check_progress(&mut self) {
        let ending = self.overdue.is_some() || self.job.finished.is_some();
        if !ending && self.is_out_of_time() {
            self.overdue = Some(overtime(&self.job));
            return;
        }
        // The runners of several hosts watch each other, and no other host's socket is in reach.
        if ending || self.job.is_elsewhere() || !self.heartbeat.is_due(Instant::now()) {
            return;
        }
        let status = runner_status(self.run_dir.socket(), self.energy_joules()).await;
        let step = self.job.progress.as_ref().map_or(0, |progress| progress.step);
        let (now, offset) = (Instant::now(), self.job.log_offset);
        self.overdue = self.heartbeat.observe(now, offset, step, status.as_ref());
        if let Some(hung) = &mut self.overdue {
            hung.message.push_str(&format!(" on cores {:?}", self.job.cores));
            tracing::warn!(job = self.job.id, hung.message, "hung");
        }
    }

    /// Uses monotonic time, since the clock may be set.
    fn is_out_of_time(&self) -> bool {
        let limit = self.job.max_run_seconds.map(Duration::from_secs);
        let since = self.runner.as_ref().and_then(Runner::since);
        let elapsed = since.map(|since| since.elapsed());
        limit.zip(elapsed).is_some_and(|(limit, elapsed)| elapsed >= limit)
    }

    /// Signals or kills the runner if it is to stop.
    async fn stop_if_requested(&mut self) {
        let Some(runner) = &self.runner else { return };
        let preempted = self.requests.preempt.get().is_some();
        let cancelled = self.requests.cancel.is_cancelled();
        let requested = cancelled || preempted || self.supervisor.draining.is_cancelled();
        let requested = requested || self.damage.is_some() || self.overdue.is_some();
        // A cluster may start the job again, which is the one that has not finished.
        let finished = self.job.finished.is_some() && matches!(runner, Runner::Process(_));
        let signalled: Result<(), SignalError> =
            match self.stop.next_action(Instant::now(), requested, finished) {
                StopAction::None => Ok(()),
                StopAction::Signal if cancelled => runner.cancel().await,
                StopAction::Signal => runner.interrupt().await,
                StopAction::Kill => runner.kill().await,
            };
        if let Err(error) = signalled {
            tracing::error!(job = self.job.id, %error, "signal the runner");
            if error.is_transient() {
                self.stop.repeat_signal(Instant::now());
            }
        }
    }

    fn reap(&mut self) -> Option<ExitStatus> {
        let reaped = self.runner.as_mut()?.reap();
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
    let logged = match log.read_batch(offset) {
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

/// The failure of a job that its cluster stopped at its time limit while no daemon ran.
fn limit_reached(job: &Job, end: &End) -> Option<v1::Failure> {
    let limit = job.max_run_seconds.map(Duration::from_secs)?;
    (end.elapsed >= limit).then(|| overtime(job))
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
