//! One task per runner: starts it or finds it again, stores what it reports, stops it on
//! request, and settles the job when the process has ended.

mod adopted_run;
pub(crate) mod before_jobs;
pub(crate) mod claim;
mod cluster_run;
mod delegated;
mod energy;
pub(crate) mod environment;
pub(crate) mod fence;
mod follow;
mod heartbeat;
mod host_retry;
mod launch;
mod process;
mod restart;
mod runner;
mod runner_status;
mod stop;
#[cfg(test)]
mod tests;
mod tree;
mod unseen;
mod verdict;
mod witness;

use std::io;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use traind_job_file::Platform;
use traind_proto::v1;

use crate::jobs::cluster::{End, EndKind};
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::{JobState, Outcome};
use crate::jobs::store::{HostFence, HostSuspicion, Job, Store, StoreError};
use crate::settings::Settings;
pub(crate) use delegated::{delegated_cgroup, enable_memory_limits};
pub(crate) use host_retry::is_transient;
pub(crate) use restart::{DELAY_MAX, restart};
pub(crate) use runner_status::{ENDED, problem, profile, runner_status};
pub(crate) use stop::StopRequests;
pub(crate) use verdict::{EXIT_IO_ERROR, EXIT_NOT_STARTED};

use before_jobs::suspects::Suspects;
use follow::{Ended, Follower};
use launch::Found;
use runner::Runner;

use tree::Tree;
use verdict::{Evidence, RUN_DIR_NOT_WRITABLE, verdict};

/// How often a runner's log and process are polled.
const PERIOD: Duration = Duration::from_millis(100);
/// Delay before an operation on a failing disk is retried.
const RETRY: Duration = Duration::from_secs(1);
/// Why a job waits whose runner was stopped without anyone cancelling the job.
const INTERRUPTED: &str = "its runner was stopped; it resumes from its newest checkpoint";
/// How many lines of the runner's output a failure quotes.
const LOG_TAIL_LINES: usize = 20;

/// How the supervisor takes on a job that holds cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// Starts a runner: the job was placed just now.
    Launch,
    /// Finds the runner: the job was active when an earlier daemon ended.
    Attach,
}

/// The part of the daemon that runners need; clones share it.
#[derive(Clone)]
pub(crate) struct Supervisor {
    pub settings: Arc<Settings>,
    pub store: Store,
    /// Cores on which runs failed by their device, where cores are tested.
    pub suspects: Option<Arc<Suspects>>,
    /// Cancelled when the daemon exits; runners keep running.
    pub closing: CancellationToken,
    /// Cancelled when all runners are to stop and their jobs to return to the queue.
    pub draining: CancellationToken,
    /// Wakes the scheduler.
    pub wake: Arc<Notify>,
}

/// Ends all processes of a job that no daemon follows.
pub(crate) fn end_processes(run_dir: &RunDir, id: &str) -> io::Result<()> {
    let tree = Tree::find(run_dir, id);
    tree.kill()?;
    tree.remove();
    Ok(())
}

impl Supervisor {
    /// Follows a job's runner until the job settles or the daemon closes. A panic in the task
    /// that follows a runner starts another one, so that no runner is left alone.
    pub(crate) async fn attend(self, mut job: Job, mut begin: Begin, requests: StopRequests) {
        loop {
            let (supervisor, id, requests) = (self.clone(), job.id.clone(), requests.clone());
            let attending = tokio::spawn(async move {
                supervisor.attend_once(job, begin, requests).await;
            });
            let Err(error) = attending.await else { return };
            tracing::error!(job = id, %error, "attend a runner; will try again");
            match self.reload(&id).await {
                Some(found) if found.state.is_active() => (job, begin) = (found, Begin::Attach),
                _ => return,
            }
        }
    }

    /// Reads a job, retrying until that succeeds; `None` if the daemon closes meanwhile.
    async fn reload(&self, id: &str) -> Option<Job> {
        loop {
            self.pause(RETRY).await?;
            let wanted = id.to_owned();
            match self.store.run(move |store| store.get(&wanted)).await {
                Ok(job) => return Some(job),
                Err(error) => tracing::error!(job = id, %error, "read a job; will try again"),
            }
        }
    }

    async fn attend_once(&self, mut job: Job, begin: Begin, requests: StopRequests) {
        let found = match begin {
            Begin::Launch => launch::launch(self, &mut job).await,
            Begin::Attach => match self.attach(&mut job).await {
                Some(found) => Ok(found),
                None => return,
            },
        };
        match found {
            Ok(Found::Alive(runner)) => self.follow(job, Some(runner), requests, false).await,
            Ok(Found::Gone { rebooted }) => self.follow(job, None, requests, rebooted).await,
            Ok(Found::Unclaimed) => {
                let id = job.id;
                self.store_durably(move |store| store.requeue(&id, "no runner had started")).await;
            }
            Err(error) => {
                tracing::warn!(job = job.id, %error, "start a runner");
                match error.is_transient() {
                    true => self.retry_launch(&job, &error.to_string()).await,
                    false => self.fail(&job, error.failure()).await,
                }
            }
        }
    }

    /// Looks for the runner until its fate is known; `None` if the daemon closes meanwhile.
    async fn attach(&self, job: &mut Job) -> Option<Found> {
        loop {
            match launch::attach(self, job).await {
                Ok(found) => return Some(found),
                Err(error) => {
                    tracing::error!(job = job.id, %error, "find a runner; will try again");
                }
            }
            self.pause(RETRY).await?;
        }
    }

    /// `rebooted`: the machine restarted since the runner started.
    async fn follow(
        &self,
        job: Job,
        runner: Option<Runner>,
        requests: StopRequests,
        rebooted: bool,
    ) {
        let run_dir = RunDir::new(&self.settings.state_dir, &job.id);
        let follower = Follower::new(self.clone(), job, run_dir.clone(), runner, requests.clone());
        let Some(Ended { job, exit, killed, end, trouble }) = follower.run().await else { return };
        if job.is_adopted() {
            return self.settle_adopted(job, &run_dir, end, trouble).await;
        }
        let preempted = requests.preempt.get();
        let leaving = self.draining.is_cancelled() || preempted.is_some();
        if trouble.is_none() && was_removed(&job, end.as_ref(), leaving) {
            let reason = "cancelled in its cluster";
            let id = job.id.clone();
            self.store_durably(move |store| store.cancel(&id, reason)).await;
            return self.settle(&job, Outcome::Cancelled, None).await;
        }
        if trouble.is_none() && was_interrupted(&job, leaving) {
            tracing::info!(job = job.id, "stopped; will resume later");
            let reason = preempted.map_or(INTERRUPTED, String::as_str).to_owned();
            let id = job.id;
            return self.store_durably(move |store| store.requeue(&id, &reason)).await;
        }
        if trouble.is_none()
            && let Some(message) = never_began(&job, exit, &run_dir)
        {
            return self.retry_launch(&job, &message).await;
        }
        let job = match trouble.is_none() {
            true => self.settle_unseen(job, &run_dir, end.as_ref()).await,
            false => Some(job),
        };
        let Some(job) = job else { return };
        let evidence = Evidence {
            cancelled: job.state == JobState::Cancelling,
            killed,
            exit,
            log_tail: run_dir.runner_log_tail(LOG_TAIL_LINES),
            is_neuron: job.platform == Platform::Neuron.to_string(),
            step: job.progress.as_ref().map(|progress| progress.step),
            finished: job.finished.clone(),
            witness: witness::of_lost_first_host(&run_dir, &job),
            rebooted,
            end,
            trouble,
        };
        match verdict(evidence) {
            (Outcome::Failed, Some(failure)) if failure.transient => {
                self.retry_run(&job, failure).await;
            }
            (Outcome::Failed, Some(failure)) => self.fail(&job, failure).await,
            (outcome, failure) => self.settle(&job, outcome, failure).await,
        }
    }

    /// Settles a job whose run others started, and may start again.
    async fn settle_adopted(
        &self,
        job: Job,
        run_dir: &RunDir,
        end: Option<End>,
        trouble: Option<v1::Failure>,
    ) {
        let cancelled = job.state == JobState::Cancelling;
        let evidence = Evidence {
            cancelled,
            step: job.progress.as_ref().map(|progress| progress.step),
            finished: job.finished.clone(),
            witness: witness::of_lost_first_host(run_dir, &job),
            end,
            trouble,
            ..Evidence::default()
        };
        let (outcome, failure) = verdict(evidence);
        if outcome == Outcome::Cancelled && !cancelled {
            let id = job.id.clone();
            let reason = "stopped without the daemon";
            self.store_durably(move |store| store.cancel(&id, reason)).await;
        }
        self.settle(&job, outcome, failure).await;
    }

    /// Requeues a job whose runner the host could not start.
    async fn retry_launch(&self, job: &Job, message: &str) {
        let restart = host_retry::retry_launch(job, message, self.settings.restart_delay);
        tracing::info!(job = job.id, restart.wait, "back to the queue");
        let id = job.id.clone();
        self.store_durably(move |store| store.retry_launch(&id, &restart)).await;
    }

    /// Requeues a job whose run a failure of the host ended, unless that happened too often.
    async fn retry_run(&self, job: &Job, failure: v1::Failure) {
        let Some(restart) = host_retry::retry_run(job, &failure, self.settings.restart_delay)
        else {
            return self.fail(job, failure).await;
        };
        tracing::warn!(job = job.id, restart.reason, restart.wait, "back to the queue");
        let id = job.id.clone();
        self.store_durably(move |store| store.retry_run(&id, &restart)).await;
    }

    /// Settles a job that failed, or queues its next attempt.
    async fn fail(&self, job: &Job, failure: v1::Failure) {
        if let Some(suspects) = &self.suspects {
            // Before the cores are free.
            suspects.note(job, &failure);
        }
        if let Some(suspicion) = cluster_run::suspicion(job, &failure) {
            self.suspect_host(suspicion).await;
        }
        let restart = restart::restart(job, &failure, self.settings.restart_delay)
            .filter(|_| job.state != JobState::Cancelling);
        match restart {
            Some(restart) => {
                tracing::info!(job = job.id, reason = restart.reason, "will be restarted");
                let id = job.id.clone();
                self.store_durably(move |store| store.restart(&id, &restart)).await;
            }
            None => self.settle(job, Outcome::Failed, Some(failure)).await,
        }
    }

    /// Notes a suspicion against a host of a cluster, before the job's next attempt.
    async fn suspect_host(&self, suspicion: HostSuspicion) {
        match self.store.run(move |store| store.suspect_host(&suspicion)).await {
            Ok(Some(HostFence { host, reason, .. })) => {
                tracing::warn!(host, reason, "fence a host")
            }
            Ok(None) => {}
            Err(error) => tracing::error!(%error, "store a suspicion against a host"),
        }
    }

    async fn settle(&self, job: &Job, outcome: Outcome, failure: Option<v1::Failure>) {
        tracing::info!(job = job.id, ?outcome, "ended");
        let id = job.id.clone();
        self.store_durably(move |store| store.settle(&id, outcome, failure.clone())).await;
    }

    /// Stores how an attempt ended, retrying until that succeeds or the daemon closes.
    async fn store_durably<W>(&self, work: W)
    where
        W: Fn(&Store) -> Result<Job, StoreError> + Clone + Send + 'static,
    {
        loop {
            match self.store.run(work.clone()).await {
                Ok(_) => return,
                Err(error @ (StoreError::Illegal { .. } | StoreError::NoJob { .. })) => {
                    return tracing::error!(%error, "store a job's end");
                }
                Err(error) => tracing::error!(%error, "store a job's end; will try again"),
            }
            if self.pause(RETRY).await.is_none() {
                return;
            }
        }
    }

    /// Sleeps; `None` if the daemon closes meanwhile.
    async fn pause(&self, period: Duration) -> Option<()> {
        tokio::select! {
            () = self.closing.cancelled() => None,
            () = tokio::time::sleep(period) => Some(()),
        }
    }
}

/// Whether the runner stopped although nobody cancelled the job: the daemon drained, a job of
/// higher priority took the cores, or the machine sent all processes SIGTERM.
fn was_interrupted(job: &Job, leaving: bool) -> bool {
    let obeyed = |finished: &v1::Finished| finished.outcome() == v1::Outcome::Cancelled;
    job.state != JobState::Cancelling && job.finished.as_ref().map_or(leaving, obeyed)
}

/// Whether somebody removed the job from its cluster. The runners may have left as if interrupted.
fn was_removed(job: &Job, end: Option<&End>, leaving: bool) -> bool {
    let completed = |finished: &v1::Finished| finished.outcome() == v1::Outcome::Completed;
    let removed = end.is_some_and(|end| end.kind == EndKind::Cancelled);
    removed
        && !leaving
        && job.state != JobState::Cancelling
        && !job.finished.as_ref().is_some_and(completed)
}

/// Why the host could not start the runner: it, or its launcher's claim, could not write its first bytes to the
/// disk, or the launcher could not execute it.
fn never_began(job: &Job, exit: Option<ExitStatus>, run_dir: &RunDir) -> Option<String> {
    if job.state != JobState::Starting || job.finished.is_some() {
        return None;
    }
    match u8::try_from(exit?.code()?).ok()? {
        EXIT_IO_ERROR => Some(RUN_DIR_NOT_WRITABLE.to_owned()),
        EXIT_NOT_STARTED => Some(run_dir.runner_log_tail(1)),
        _ => None,
    }
}
