//! Schedulers of clusters: the daemon hands jobs over to them, asks about them, and stops them.
//!
//! A cluster starts one runner on each of a job's hosts, with the same run folder. It decides when, and
//! on which hosts. Nothing here changes the job's state in the store.

mod error;
pub(crate) mod host_list;
mod kubernetes;
mod program;
mod slurm;
mod submission;

use serde::{Deserialize, Serialize};
use std::time::Duration;

use traind_job_file::{Engine, JobFile, RunSpec};

use crate::access::account::Account;

pub(crate) use error::ClusterError;
pub(crate) use kubernetes::checks::checks as kubernetes_checks;
pub(crate) use slurm::checks::checks as slurm_checks;
pub(crate) use submission::Submission;

/// A kind of cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Cluster {
    Slurm,
    Kubernetes,
}

/// A job's name in its cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ClusterJob {
    pub cluster: Cluster,
    /// The id that the cluster gave it.
    pub id: String,
}

/// The state of a job in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Report {
    pub condition: Condition,
    /// How often the cluster itself has requeued the job.
    pub restarts: u32,
    /// Names of its hosts, as the cluster writes them; empty before it has some.
    pub hosts: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// Waits, for this reason.
    Waiting(String),
    /// Waits, for this reason, and the cluster has stopped its runners if there were any.
    Suspended(String),
    /// Has run for this long.
    Running(Duration),
    /// Holds its hosts, and the cluster has stopped its processes until it continues them, for this reason.
    Paused(String),
    Ended(End),
    /// The cluster has no record of it.
    Unknown,
}

/// How a job ended in its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct End {
    pub kind: EndKind,
    /// How long it ran.
    pub elapsed: Duration,
    /// A sentence for display, such as "Slurm job 7 failed on n1: its batch script exited with code 3".
    pub description: String,
    /// The host at fault, if the cluster names one.
    pub host: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum EndKind {
    Completed,
    /// Somebody removed it.
    Cancelled,
    Failed,
    OutOfMemory,
    /// It reached the cluster's time limit.
    TimeLimit,
    /// A host failed, or the cluster took the hosts away.
    HostLost,
}

impl Cluster {
    /// The cluster of an engine; `None` if the daemon itself starts the runner.
    pub(crate) fn of(engine: Engine) -> Option<Cluster> {
        match engine {
            Engine::Slurm => Some(Cluster::Slurm),
            Engine::Kubernetes => Some(Cluster::Kubernetes),
            Engine::Local => None,
        }
    }

    /// The name for display.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Cluster::Slurm => "Slurm",
            Cluster::Kubernetes => "Kubernetes",
        }
    }

    /// Checks that this host can submit jobs.
    pub(crate) fn check(self) -> Result<(), ClusterError> {
        match self {
            Cluster::Slurm => slurm::check(),
            Cluster::Kubernetes => kubernetes::check(),
        }
    }

    /// Hands a job over.
    pub(crate) async fn submit(self, job: &Submission<'_>) -> Result<ClusterJob, ClusterError> {
        let id = match self {
            Cluster::Slurm => slurm::submit(job).await?,
            Cluster::Kubernetes => kubernetes::submit(job).await?,
        };
        Ok(ClusterJob { cluster: self, id })
    }

    /// Shows what the cluster would get: a command with its input, or manifests in YAML.
    pub(crate) fn preview(self, job: &Submission<'_>) -> String {
        match self {
            Cluster::Slurm => slurm::preview(job),
            Cluster::Kubernetes => kubernetes::preview(job),
        }
    }

    /// Finds the job of an attempt of `spec` whose submission nobody recorded.
    pub(crate) async fn find(
        self,
        spec: &RunSpec,
        account: Option<Account>,
    ) -> Result<Option<ClusterJob>, ClusterError> {
        let (job_id, attempt) = (spec.job_id.as_str(), spec.attempt);
        let id = match self {
            Cluster::Slurm => slurm::find(job_id, attempt, account).await?,
            Cluster::Kubernetes => kubernetes::find(spec).await?,
        };
        Ok(id.map(|id| ClusterJob { cluster: self, id }))
    }

    /// Finds the newest attempt of a job, among those from `since`.
    pub(crate) async fn newest(
        self,
        job_id: &str,
        since: u32,
        job: &JobFile,
        account: Option<Account>,
    ) -> Result<Option<ClusterJob>, ClusterError> {
        let id = match self {
            Cluster::Slurm => slurm::newest(job_id, since, account).await?,
            Cluster::Kubernetes => {
                kubernetes::newest(job_id, since, &job.kubernetes.namespace).await?
            }
        };
        Ok(id.map(|id| ClusterJob { cluster: self, id }))
    }
}

impl ClusterJob {
    /// Asks for the job's state.
    pub(crate) async fn report(&self, account: Option<Account>) -> Result<Report, ClusterError> {
        match self.cluster {
            Cluster::Slurm => slurm::report(&self.id, account).await,
            Cluster::Kubernetes => kubernetes::report(&self.id).await,
        }
    }

    /// Asks all runners to save a checkpoint and leave.
    pub(crate) async fn interrupt(&self, account: Option<Account>) -> Result<(), ClusterError> {
        match self.cluster {
            Cluster::Slurm => slurm::signal(&self.id, "TERM", account).await,
            Cluster::Kubernetes => kubernetes::remove(&self.id).await,
        }
    }

    /// Asks all runners to end after the current step.
    pub(crate) async fn cancel(&self, account: Option<Account>) -> Result<(), ClusterError> {
        match self.cluster {
            Cluster::Slurm => slurm::signal(&self.id, "INT", account).await,
            // Pods get no other signal than SIGTERM.
            Cluster::Kubernetes => kubernetes::remove(&self.id).await,
        }
    }

    /// Removes the job and ends its processes.
    pub(crate) async fn remove(&self, account: Option<Account>) -> Result<(), ClusterError> {
        match self.cluster {
            Cluster::Slurm => slurm::remove(&self.id, account).await,
            Cluster::Kubernetes => kubernetes::remove(&self.id).await,
        }
    }
}

impl std::fmt::Display for ClusterJob {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} job {}", self.cluster.name(), self.id)
    }
}
