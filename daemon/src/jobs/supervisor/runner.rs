//! The runner of a job, or its runners: a process of this host, a job in a cluster, or a run that others started.

use std::io;
use std::process::ExitStatus;
use std::time::Instant;

use super::adopted_run::AdoptedRun;
use super::cluster_run::ClusterRun;
use super::process::RunnerProcess;
use crate::jobs::cluster::{ClusterError, End};

/// The runners that a follower watches.
#[derive(Debug)]
pub(super) enum Runner {
    Process(RunnerProcess),
    Cluster(Box<ClusterRun>),
    Adopted(AdoptedRun),
}

#[derive(Debug, thiserror::Error)]
pub(super) enum SignalError {
    #[error(transparent)]
    Process(#[from] io::Error),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
}

impl SignalError {
    /// Whether the signal may arrive later.
    pub(super) fn is_transient(&self) -> bool {
        matches!(self, SignalError::Cluster(error) if error.is_transient())
    }
}

impl Runner {
    /// When it began to run; `None` while it waits in a cluster.
    pub(super) fn since(&self) -> Option<Instant> {
        match self {
            Runner::Process(process) => Some(process.since),
            Runner::Cluster(run) => run.since(),
            // Its time limits are not the daemon's.
            Runner::Adopted(_) => None,
        }
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        match self {
            Runner::Process(process) => process.has_ended(),
            Runner::Cluster(run) => run.has_ended(),
            Runner::Adopted(run) => run.has_ended(Instant::now()),
        }
    }

    /// Asks it to end after the current step.
    pub(super) async fn cancel(&self) -> Result<(), SignalError> {
        match self {
            Runner::Process(process) => Ok(process.cancel()?),
            Runner::Cluster(run) => Ok(run.cancel().await?),
            Runner::Adopted(run) => Ok(run.cancel()?),
        }
    }

    /// Asks it to save a checkpoint and leave.
    pub(super) async fn interrupt(&self) -> Result<(), SignalError> {
        match self {
            Runner::Process(process) => Ok(process.interrupt()?),
            Runner::Cluster(run) => Ok(run.interrupt().await?),
            Runner::Adopted(run) => Ok(run.interrupt()?),
        }
    }

    /// Kills it and every process that it started.
    pub(super) async fn kill(&self) -> Result<(), SignalError> {
        match self {
            Runner::Process(process) => Ok(process.kill()?),
            Runner::Cluster(run) => Ok(run.remove().await?),
            // Its processes are those of another host.
            Runner::Adopted(run) => Ok(run.cancel()?),
        }
    }

    /// Clears up after its end. Returns the exit status of a process that is a child.
    pub(super) fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        match self {
            Runner::Process(process) => process.reap(),
            Runner::Cluster(_) | Runner::Adopted(_) => Ok(None),
        }
    }

    /// How it ended in its cluster.
    pub(super) fn end(&self) -> Option<End> {
        match self {
            Runner::Process(_) => None,
            Runner::Cluster(run) => run.end(),
            Runner::Adopted(run) => run.end(Instant::now()),
        }
    }
}
