//! Errors of the control plane. `interfaces::status` converts them to gRPC status.

use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use traind_job_file::commands::{Misfit, Plan, PlanViolation};
use traind_job_file::{Engine, TaskName};
use traind_wording::counted;

use super::planner::PlanError;
use crate::jobs::state::{IllegalTransition, JobState};
use crate::jobs::store::StoreError;

/// An invalid field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    /// Path of the field.
    pub field: String,
    pub description: String,
}

/// Why no texts were generated.
#[derive(Debug, thiserror::Error)]
pub enum GenerationError {
    #[error("models of the task {0} generate no texts")]
    Task(TaskName),
    #[error("run the generator: {0}")]
    Process(#[from] std::io::Error),
    #[error("generating took longer than {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the generator ended with {0}")]
    Died(ExitStatus),
    /// The runner's own error.
    #[error("{message}")]
    Refused { reason: &'static str, message: String },
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the job file has {}", count(.violations.len()))]
    JobFile { violations: Vec<FieldViolation> },
    #[error("{field}: {description}")]
    Request { field: &'static str, description: String },
    #[error("the page token is not one that ListJobs returned")]
    PageToken,
    #[error(
        "this host has {}, and the job requests {wanted}",
        counted(.available, &format!("{} core", .platform))
    )]
    Cores { platform: String, available: u32, wanted: u32 },
    #[error(
        "a user may hold {} of this host at a time, and the job requests {wanted}",
        counted(.limit, "core")
    )]
    CoresOfUser { limit: u32, wanted: u32 },
    #[error(
        "group {group} may hold {} of this host at a time, and the job requests {wanted}",
        counted(.limit, "core")
    )]
    CoresOfGroup { group: String, limit: u32, wanted: u32 },
    #[error("group {group} {has}")]
    Quota { group: String, has: String },
    #[error("jobs on {device} use {} cores of a host, and the job requests {wanted}", listed(.counts))]
    CoreCount { device: String, counts: Vec<String>, wanted: u32 },
    #[error("this daemon schedules {offered} cores, and the job requests {platform}")]
    Platform { offered: String, platform: String },
    #[error("`resources.engine: {engine}` is not available: {reason}")]
    Engine { engine: Engine, reason: String },
    #[error("the {platform} plugin is not installed: {instructions}")]
    Plugin { platform: String, instructions: String },
    #[error("{}", misfit_words(.plan, *.available, .misfit))]
    Memory { plan: Box<Plan>, available: u64, misfit: Misfit },
    #[error(
        "output_dir would need {}, and {folder} has {} free", size(*.wanted), size(*.available),
        folder = .folder.display()
    )]
    Disk { wanted: u64, available: u64, folder: PathBuf },
    #[error(transparent)]
    Generation(#[from] GenerationError),
    #[error("plan the job: {0}")]
    Plan(PlanError),
    /// `field` of the job file names the folder.
    #[error("{field} {folder} is in use by job {id}, which is {state}")]
    FolderInUse { field: &'static str, folder: String, id: String, state: JobState },
    #[error(
        "{folder} belongs to {owner}; only that user or an admin may adopt the run",
        folder = .folder.display()
    )]
    ForeignRun { folder: PathBuf, owner: String },
    #[error("{max} runs of {owner} are followed, and no more can be; wait until one has ended")]
    Followed { owner: String, max: usize },
    #[error("read the host's log: {0}")]
    HostLog(traind_proto::event_log::EventLogError),
    #[error("link the run folder: {0}")]
    Link(std::io::Error),
    #[error(transparent)]
    Access(#[from] crate::access::AccessError),
    #[error("look up or switch to the user's account: {0}")]
    Switch(std::io::Error),
    #[error(transparent)]
    Denied(#[from] crate::access::Denied),
    #[error(
        "jobs of {user}, who calls from the network, have no account on this host: add {user} to \
         `accounts` in the daemon's access file, or set `default_account` there"
    )]
    NoAccount { user: String },
    #[error("the caller is unknown: present a client certificate or a token")]
    Unauthenticated,
    #[error("the token is not valid: it may be misspelt, revoked or expired")]
    InvalidToken,
    #[error("the stream was closed: its reader read nothing for a minute")]
    SlowReader,
    #[error("the request did not arrive within {} s", .0.as_secs())]
    SlowRequest(Duration),
    #[error("no token has the id {id:?}")]
    NoToken { id: String },
    #[error("the daemon serves no more {what} at this time; try again later")]
    Busy { what: &'static str },
    #[error("no job has the id or name {reference:?}")]
    NoJob { reference: String },
    #[error("{reference:?} is the beginning of several job ids: {}", .ids.join(", "))]
    Ambiguous { reference: String, ids: Vec<String> },
    #[error("request_id {request_id:?} was used for job {id} with another job file")]
    RequestReused { request_id: String, id: String },
    #[error("job {id}: {source}")]
    Illegal { id: String, source: IllegalTransition },
    #[error("the daemon is stopping; jobs keep running; try again once it is back")]
    ShuttingDown,
    #[error("the daemon is draining and accepts no more jobs; try again once it is back")]
    Draining,
    #[error("this daemon serves no web page; start it with --web-address 127.0.0.1:9401")]
    NoWeb,
    #[error(transparent)]
    Store(StoreError),
    #[error("write the job file of a fork: {0}")]
    Fork(String),
    #[error("write the resolved job file: {0}")]
    Resolved(serde_json::Error),
    #[error("read the sample ledger: {0}")]
    Ledger(std::io::Error),
    #[error("read the programs of the run folder: {0}")]
    Programs(std::io::Error),
    #[error("job {id} cannot be profiled: {problem}")]
    Profile { id: String, problem: String },
    #[error("read the audit log: {0}")]
    Audit(std::io::Error),
    #[error("draw random bytes: {0}")]
    Random(std::io::Error),
}

impl From<PlanViolation> for FieldViolation {
    fn from(PlanViolation { field, description }: PlanViolation) -> FieldViolation {
        FieldViolation { field, description }
    }
}

impl From<PlanError> for Error {
    fn from(error: PlanError) -> Error {
        match error {
            PlanError::Violations(found) => {
                Error::JobFile { violations: found.into_iter().map(FieldViolation::from).collect() }
            }
            error => Error::Plan(error),
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::NoJob { id } => Error::NoJob { reference: id },
            StoreError::Illegal { id, source } => Error::Illegal { id, source },
            StoreError::RequestReused { request_id, id } => Error::RequestReused { request_id, id },
            StoreError::FolderInUse { field, folder, id, state } => {
                Error::FolderInUse { field, folder, id, state }
            }
            error @ (StoreError::Sqlite { .. }
            | StoreError::Corrupt { .. }
            | StoreError::Lost { .. }
            | StoreError::Outdated { .. }
            | StoreError::NotEarlier { .. }
            | StoreError::Missing { .. }
            | StoreError::Records { .. }
            | StoreError::Newer { .. }) => Error::Store(error),
        }
    }
}

fn misfit_words(plan: &Plan, available: u64, misfit: &Misfit) -> String {
    format!(
        "a core would need {} (weights {}, gradients {}, optimizer {}, activations {}) and has {}; {}",
        size(plan.memory.bytes_per_core),
        size(plan.memory.weights_bytes),
        size(plan.memory.gradients_bytes),
        size(plan.memory.optimizer_bytes),
        size(plan.memory.activations_bytes),
        size(available),
        misfit.advice(),
    )
}

/// "1, 2 or 8".
fn listed(counts: &[String]) -> String {
    match counts.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => counts.join(", "),
    }
}

fn size(bytes: u64) -> String {
    crate::size::bytes(bytes)
}

fn count(violations: usize) -> String {
    match violations {
        1 => "1 mistake".to_owned(),
        many => format!("{many} mistakes"),
    }
}
