//! What the daemon refuses, in its own words. `status.rs` tells clients.

use std::path::PathBuf;

use super::planner::{Change, Plan, PlanError};
use crate::jobs::state::{IllegalTransition, JobState};
use crate::jobs::store::StoreError;

/// One thing wrong with a request, by the path of the field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldViolation {
    pub field: String,
    pub description: String,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the job file has {}", count(.violations.len()))]
    JobFile { violations: Vec<FieldViolation> },
    #[error("{field}: {description}")]
    Request { field: &'static str, description: String },
    #[error("the page token is not one that ListJobs returned")]
    PageToken,
    #[error("this host has {available} {platform} cores, and the job asks for {wanted}")]
    Cores { platform: String, available: u32, wanted: u32 },
    #[error("a user may hold {limit} cores of this host at a time, and the job asks for {wanted}")]
    CoresOfUser { limit: u32, wanted: u32 },
    #[error("jobs on {device} take {} cores, and the job asks for {wanted}", .counts.join(", "))]
    CoreCount { device: String, counts: Vec<String>, wanted: u32 },
    #[error("this daemon schedules {offered} cores, and the job asks for {platform}")]
    Platform { offered: String, platform: String },
    #[error("the {platform} plugin is not installed: {instructions}")]
    Plugin { platform: String, instructions: String },
    #[error("{}", misfit(.plan, *.available, .change.as_ref()))]
    Memory { plan: Box<Plan>, available: u64, change: Option<Change> },
    #[error(
        "output_dir would take {}, and {folder} has {} free", size(*.wanted), size(*.available),
        folder = .folder.display()
    )]
    Disk { wanted: u64, available: u64, folder: PathBuf },
    #[error("plan the job: {0}")]
    Plan(#[from] PlanError),
    #[error("output_dir {output_dir} is in use by job {id}, which is {state}")]
    OutputInUse { output_dir: String, id: String, state: JobState },
    #[error(transparent)]
    Access(#[from] crate::access::AccessError),
    #[error("take the rights of the user: {0}")]
    Switch(std::io::Error),
    #[error(transparent)]
    Denied(#[from] crate::access::Denied),
    #[error("the connection does not tell who calls: show a client certificate or a token")]
    Nobody,
    #[error("the token is not one that works: it may be misspelt, revoked or expired")]
    Token,
    #[error("the stream was cut off: its reader took nothing for a minute")]
    SlowReader,
    #[error("no token has the id {id:?}")]
    NoToken { id: String },
    #[error("the daemon has as many {what} as it takes; ask again later")]
    Busy { what: &'static str },
    #[error("no job has the id or name {reference:?}")]
    NoJob { reference: String },
    #[error("{reference:?} is the beginning of several job ids: {}", .ids.join(", "))]
    Ambiguous { reference: String, ids: Vec<String> },
    #[error("request_id {request_id:?} was used for job {id} with another job file")]
    RequestReused { request_id: String, id: String },
    #[error("job {id}: {source}")]
    Illegal { id: String, source: IllegalTransition },
    #[error("the daemon is stopping; jobs go on, and it can be asked again when it is back")]
    ShuttingDown,
    #[error("the daemon drains and takes no more jobs; ask again when it is back")]
    Draining,
    #[error("this daemon serves no web page; start it with --web-address 127.0.0.1:9401")]
    NoWeb,
    #[error(transparent)]
    Store(StoreError),
    #[error("write the resolved job file: {0}")]
    Resolved(serde_json::Error),
    #[error("read the sample ledger: {0}")]
    Ledger(std::io::Error),
    #[error("draw random bytes: {0}")]
    Random(std::io::Error),
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Error {
        match error {
            StoreError::NoJob { id } => Error::NoJob { reference: id },
            StoreError::Illegal { id, source } => Error::Illegal { id, source },
            StoreError::RequestReused { request_id, id } => Error::RequestReused { request_id, id },
            StoreError::OutputInUse { output_dir, id, state } => {
                Error::OutputInUse { output_dir, id, state }
            }
            error => Error::Store(error),
        }
    }
}

fn misfit(plan: &Plan, available: u64, change: Option<&Change>) -> String {
    let advice = match change {
        Some(Change { field, value }) => format!("it fits with {field}: {value}"),
        None => "no single change makes it fit".to_owned(),
    };
    format!(
        "a core would need {} (weights {}, gradients {}, optimizer {}, activations {}) and has {}; {advice}",
        size(plan.bytes_per_core),
        size(plan.weights_bytes),
        size(plan.gradients_bytes),
        size(plan.optimizer_bytes),
        size(plan.activations_bytes),
        size(available),
    )
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
