//! One task for each runner: starts it or finds it again, stores what it reports,
//! ends it when asked to, and settles the job when its process is gone.

mod ask;
pub(crate) mod claim;
mod delegated;
pub(crate) mod environment;
pub(crate) mod fence;
mod follow;
mod heartbeat;
mod launch;
mod postpone;
mod process;
mod restart;
mod run_dir;
mod stop;
#[cfg(test)]
mod tests;
mod tree;
mod verdict;

use std::io;
use std::process::ExitStatus;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
use traind_proto::v1;

use crate::daemon::Daemon;
use crate::state::{JobState, Outcome};
use crate::store::{Job, Store, StoreError};
pub(crate) use ask::ask;
pub(crate) use delegated::{delegated_cgroup, divide_memory};
pub(crate) use postpone::may_pass;
pub(crate) use restart::{DELAY_MAX, restart};
pub(crate) use run_dir::RunDir;
pub(crate) use verdict::EXIT_IO_ERROR;

use follow::{Ended, Follower};
use launch::Found;
use process::RunnerProcess;
use tree::Tree;
use verdict::{Evidence, MUTE, verdict};

/// How often a runner's log and process are looked at.
const PERIOD: Duration = Duration::from_millis(100);
/// How long to leave a disk that refuses to work alone.
const RETRY: Duration = Duration::from_secs(1);
/// Why a job waits whose runner was told to stop, not the job.
const INTERRUPTED: &str = "its runner was stopped; it goes on from its newest checkpoint";
/// How much of the runner's output a failure quotes.
const LOG_TAIL_LINES: usize = 20;

/// What the job's row says about its runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Begin {
    /// It was placed just now.
    Launch,
    /// It was active when an earlier daemon ended.
    Attach,
}

/// What is wanted of a runner; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Wishes {
    /// The job is to end.
    pub end: CancellationToken,
    /// Why the job has to give up its cores for now.
    pub leave: Arc<OnceLock<String>>,
}

/// Ends all processes of a job that no daemon follows.
pub(crate) fn end_processes(run_dir: &RunDir, id: &str) -> io::Result<()> {
    let tree = Tree::find(run_dir, id);
    tree.kill()?;
    tree.remove();
    Ok(())
}

/// Sees a job through to its end, or until the daemon closes. Not even a defect leaves a runner
/// without somebody who follows it.
pub(crate) async fn attend(daemon: Arc<Daemon>, mut job: Job, mut begin: Begin, wishes: Wishes) {
    loop {
        let (daemon_of_task, id, wishes) = (daemon.clone(), job.id.clone(), wishes.clone());
        let attending = tokio::spawn(async move {
            attend_once(&daemon_of_task, job, begin, wishes).await;
        });
        let Err(error) = attending.await else { return };
        tracing::error!(job = id, %error, "attend a runner; will try again");
        match reload(&daemon, &id).await {
            Some(found) if found.state.is_active() => (job, begin) = (found, Begin::Attach),
            _ => return,
        }
    }
}

/// Reads a job until it can be read; `None` if the daemon closes meanwhile.
async fn reload(daemon: &Daemon, id: &str) -> Option<Job> {
    loop {
        pause(daemon, RETRY).await?;
        let wanted = id.to_owned();
        match daemon.store.run(move |store| store.get(&wanted)).await {
            Ok(job) => return Some(job),
            Err(error) => tracing::error!(job = id, %error, "read a job; will try again"),
        }
    }
}

async fn attend_once(daemon: &Arc<Daemon>, mut job: Job, begin: Begin, wishes: Wishes) {
    let found = match begin {
        Begin::Launch => launch::launch(daemon, &mut job).await,
        Begin::Attach => match attach(daemon, &job).await {
            Some(found) => Ok(found),
            None => return,
        },
    };
    match found {
        Ok(Found::Alive(process)) => follow(daemon, job, Some(process), wishes, false).await,
        Ok(Found::Gone { rebooted }) => follow(daemon, job, None, wishes, rebooted).await,
        Ok(Found::Unclaimed) => {
            let id = job.id;
            insist(daemon, move |store| store.requeue(&id, "no runner had started")).await;
        }
        Err(error) => {
            tracing::warn!(job = job.id, %error, "start a runner");
            match error.may_pass() {
                true => put_off(daemon, &job, &error.to_string()).await,
                false => fail(daemon, &job, error.failure()).await,
            }
        }
    }
}

/// Tries until it is known what became of the runner, or the daemon closes.
async fn attach(daemon: &Arc<Daemon>, job: &Job) -> Option<Found> {
    loop {
        match launch::attach(daemon, job).await {
            Ok(found) => return Some(found),
            Err(error) => tracing::error!(job = job.id, %error, "find a runner; will try again"),
        }
        pause(daemon, RETRY).await?;
    }
}

/// `rebooted`: the runner went with its machine.
async fn follow(
    daemon: &Arc<Daemon>,
    job: Job,
    process: Option<RunnerProcess>,
    wishes: Wishes,
    rebooted: bool,
) {
    let run_dir = RunDir::new(&daemon.settings.state_dir, &job.id);
    let follower = Follower::new(daemon.clone(), job, run_dir.clone(), process, wishes.clone());
    let Some(Ended { job, exit, killed, trouble }) = follower.run().await else { return };
    let leave = wishes.leave.get();
    if trouble.is_none() && was_interrupted(&job, daemon.draining.is_cancelled() || leave.is_some())
    {
        tracing::info!(job = job.id, "stopped; goes on later");
        let (id, reason) = (job.id, leave.map_or(INTERRUPTED, String::as_str).to_owned());
        return insist(daemon, move |store| store.requeue(&id, &reason)).await;
    }
    if trouble.is_none() && never_began(&job, exit) {
        return put_off(daemon, &job, MUTE).await;
    }
    let evidence = Evidence {
        cancelled: job.state == JobState::Cancelling,
        killed,
        exit,
        log_tail: run_dir.runner_log_tail(LOG_TAIL_LINES),
        step: job.progress.as_ref().map(|progress| progress.step),
        finished: job.finished.clone(),
        rebooted,
        trouble,
    };
    match verdict(evidence) {
        (Outcome::Failed, Some(failure)) if failure.transient => {
            hinder(daemon, &job, failure).await;
        }
        (Outcome::Failed, Some(failure)) => fail(daemon, &job, failure).await,
        (outcome, failure) => settle(daemon, &job, outcome, failure).await,
    }
}

/// Whether the runner stopped although nobody wants the job to end: it had to leave, since
/// the daemon drained or another job comes first, or the machine told all its processes to.
fn was_interrupted(job: &Job, leaving: bool) -> bool {
    let wanted = job.state == JobState::Cancelling;
    let obeyed = |finished: &v1::Finished| finished.outcome() == v1::Outcome::Cancelled;
    !wanted && job.finished.as_ref().map_or(leaving, obeyed)
}

/// Whether the runner's first word, or its launcher's claim, found no room on the disk.
fn never_began(job: &Job, exit: Option<ExitStatus>) -> bool {
    let mute = exit.and_then(|status| status.code()) == Some(i32::from(EXIT_IO_ERROR));
    mute && job.state == JobState::Starting && job.finished.is_none()
}

/// Queues a job again whose runner the host could not start.
async fn put_off(daemon: &Daemon, job: &Job, message: &str) {
    let restart = postpone::postpone(job, message, daemon.settings.restart_delay);
    tracing::info!(job = job.id, restart.wait, "back to the queue");
    let id = job.id.clone();
    insist(daemon, move |store| store.postpone(&id, &restart)).await;
}

/// Queues a job again that the host did not let come to its end.
async fn hinder(daemon: &Daemon, job: &Job, failure: v1::Failure) {
    let Some(restart) = postpone::hinder(job, &failure, daemon.settings.restart_delay) else {
        return fail(daemon, job, failure).await;
    };
    tracing::warn!(job = job.id, restart.reason, restart.wait, "back to the queue");
    let id = job.id.clone();
    insist(daemon, move |store| store.hinder(&id, &restart)).await;
}

/// Ends a job that failed, or queues its next attempt.
async fn fail(daemon: &Daemon, job: &Job, failure: v1::Failure) {
    let delay = daemon.settings.restart_delay;
    match restart::restart(job, &failure, delay).filter(|_| job.state != JobState::Cancelling) {
        Some(restart) => {
            tracing::info!(job = job.id, reason = restart.reason, "will be started again");
            let id = job.id.clone();
            insist(daemon, move |store| store.restart(&id, &restart)).await;
        }
        None => settle(daemon, job, Outcome::Failed, Some(failure)).await,
    }
}

async fn settle(daemon: &Daemon, job: &Job, outcome: Outcome, failure: Option<v1::Failure>) {
    tracing::info!(job = job.id, ?outcome, "ended");
    let id = job.id.clone();
    insist(daemon, move |store| store.settle(&id, outcome, failure.clone())).await;
}

/// Stores something that must not be forgotten: tries again until it is, or the daemon closes.
async fn insist<W>(daemon: &Daemon, work: W)
where
    W: Fn(&Store) -> Result<Job, StoreError> + Clone + Send + 'static,
{
    loop {
        match daemon.store.run(work.clone()).await {
            Ok(_) => return,
            Err(error @ (StoreError::Illegal { .. } | StoreError::NoJob { .. })) => {
                return tracing::error!(%error, "store a job's end");
            }
            Err(error) => tracing::error!(%error, "store a job's end; will try again"),
        }
        if pause(daemon, RETRY).await.is_none() {
            return;
        }
    }
}

/// Sleeps; `None` if the daemon closes meanwhile.
async fn pause(daemon: &Daemon, period: Duration) -> Option<()> {
    tokio::select! {
        () = daemon.closing.cancelled() => None,
        () = tokio::time::sleep(period) => Some(()),
    }
}
