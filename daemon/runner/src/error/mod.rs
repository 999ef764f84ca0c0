//! The error of a run, and its one translation into the [`Failure`] that users and clients see.
//!
//! Imports no other module.
//!
//! [`Failure`]: traind_proto::v1::Failure

mod explained;
mod failure;
mod log;
mod reason;
mod trainer;

use std::path::PathBuf;

use traind_folders::{Conflict, Holder};
use traind_loader::{Error as LoaderError, PrefetchError, SamplerError, TokenizeProblem};
use traind_models::Error as ModelError;
use traind_pjrt::Error as PjrtError;
use traind_proto::event_log::EventLogError;
use traind_rendezvous::{LaunchError, RendezvousError};
use traind_xla::{DType, Error as XlaError};

pub(crate) use explained::explained;
pub(crate) use log::leave_out_earlier_lines;

pub(crate) type RunResult<T> = Result<T, RunError>;

/// The value of a field behind its name, in errors.
pub(crate) fn of_value(value: &str) -> String {
    match (value, value.parse::<f64>()) {
        ("", _) => String::new(),
        (number, Ok(_)) => format!(" is {number}"),
        (text, Err(_)) => format!(" names {text:?}"),
    }
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Data(#[from] LoaderError),

    #[error(transparent)]
    Model(#[from] ModelError),

    #[error(transparent)]
    Device(#[from] XlaError),

    #[error("{name} of the job file{}: {problem}", of_value(value))]
    Field { name: &'static str, value: String, problem: String },

    /// Faults of a job that were found together: at least one.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Several(Vec<RunError>),

    /// `field` of the job file names the repository.
    #[error("{source}")]
    Hub { field: &'static str, source: traind_hub::Error },

    /// `field` of the job file names the bucket.
    #[error("{source}")]
    Bucket { field: &'static str, source: traind_bucket::Error },

    /// The model cannot be committed to the hub.
    #[error("{source}")]
    Publish { source: traind_hub::Error },

    #[error("the plugin has too few devices for the job: {found} of {cores}")]
    MissingDevices { found: usize, cores: usize },

    /// The loader has no data for an input of the model.
    #[error("the model needs the input {name} ({dtype}), and the data have none")]
    NoSuchInput { name: String, dtype: DType },

    /// The loader's data for an input of the model are of another type.
    #[error("the model needs the input {name} as {expected}, and the data have it as {found}")]
    InputType { name: String, expected: DType, found: DType },

    #[error("decode generated tokens: {0}")]
    Decode(TokenizeProblem),

    /// A pass of generation was recorded before its cache was declared.
    #[error("no cache of keys and values was declared, which is a defect of traind")]
    NoCache,

    #[error("the {quantity} of step {step} is {value}; {advice}")]
    NotFinite { quantity: &'static str, step: u64, value: f64, advice: &'static str },

    #[error("the data cannot be sampled: {0}")]
    Sampling(#[from] SamplerError),

    #[error("the loader's thread ended: {0}")]
    Prefetch(String),

    #[error("start a thread: {0}")]
    Thread(std::io::Error),

    #[error("serve the runner's status: {0:#}")]
    Service(anyhow::Error),

    #[error("{} holds no checkpoint to resume from", folder.display())]
    CheckpointNotFound { folder: PathBuf },

    /// Texts were to be generated with a checkpoint that the job does not have.
    #[error("{} has {}", folder.display(), missing_checkpoint(*step, .known))]
    NoSuchCheckpoint { folder: PathBuf, step: Option<u64>, known: Vec<u64> },

    #[error("the model is in {url} and no longer on this host: download it, and name its folder")]
    OnlyInBucket { url: String },

    #[error("the checkpoint {} cannot be used: {problem}", path.display())]
    CheckpointCorrupt { path: PathBuf, problem: CheckpointProblem },

    #[error("the checkpoint {} does not fit the job: {problem}", path.display())]
    CheckpointMismatch { path: PathBuf, problem: String },

    #[error(
        "the disk of {} has {available} bytes left, and the model with {checkpoints} checkpoints \
         takes {needed}; set save_total_limit, raise save_steps or make room",
        path.display()
    )]
    DiskFull { path: PathBuf, needed: u64, available: u64, checkpoints: u64 },

    #[error(
        "train.metric_for_best_model names {name}, and evaluations compute {}",
        computed.join(", ")
    )]
    NoSuchMetric { name: String, computed: Vec<String> },

    #[error("{action} {}: {source}", path.display())]
    Output { action: &'static str, path: PathBuf, source: std::io::Error },

    /// The run would destroy files that it did not write.
    #[error("{0}")]
    OutputOccupied(Conflict),

    #[error(
        "{} is in use by job {} ({}) on {}", folder.display(), holder.job, holder.name, holder.host
    )]
    OutputInUse { folder: PathBuf, holder: Holder },

    #[error(transparent)]
    EventLog(#[from] EventLogError),

    #[error(transparent)]
    Launch(#[from] LaunchError),

    #[error("the hosts of the job did not meet: {0}")]
    Rendezvous(#[from] RendezvousError),

    #[error("{what} differs from that of host 0 on {}", host_list(.hosts))]
    HostsDiffer { what: &'static str, hosts: Vec<usize> },

    #[error("{} of host 0 cannot be read on {}; {remedy}", path.display(), host_list(.hosts))]
    NotShared { path: PathBuf, hosts: Vec<usize>, remedy: &'static str },

    #[error("the runner panicked, which is a defect of traind: {0}")]
    Panicked(String),
}

/// Damage of a checkpoint.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CheckpointProblem {
    #[error("its {}: {source}", file.display())]
    Unreadable { file: PathBuf, source: std::io::Error },

    #[error("its {file}: {source}")]
    Invalid { file: &'static str, source: serde_json::Error },

    #[error("its {} does not match its checksum", file.display())]
    Changed { file: PathBuf },

    #[error("its format {format} is unknown to this version")]
    UnknownFormat { format: u32 },

    #[error("it is of step {found}, not {expected}")]
    OtherStep { found: u64, expected: u64 },

    #[error(
        "it is a checkpoint of another program, such as the Trainer; to begin with its weights, \
         name it in model.name_or_path"
    )]
    Foreign,

    #[error("it was saved with save_only_model and has no state to resume from")]
    ModelOnly,
}

fn missing_checkpoint(step: Option<u64>, known: &[u64]) -> String {
    let listed = known.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    match step.filter(|_| !known.is_empty()) {
        Some(step) => format!("no checkpoint of step {step}, but those of steps {listed}"),
        None => "no complete checkpoint of the job yet".to_owned(),
    }
}

/// Lists at most 16 hosts by number.
fn host_list(hosts: &[usize]) -> String {
    const SHOWN: usize = 16;
    let shown: Vec<String> = hosts.iter().take(SHOWN).map(|rank| format!("host {rank}")).collect();
    let more = if hosts.len() > SHOWN { " and others" } else { "" };
    format!("{}{more}", shown.join(", "))
}

impl From<PjrtError> for RunError {
    fn from(error: PjrtError) -> RunError {
        RunError::Device(XlaError::Pjrt(error))
    }
}

impl From<PrefetchError<RunError>> for RunError {
    fn from(error: PrefetchError<RunError>) -> RunError {
        match error {
            PrefetchError::Batch(error) => error,
            PrefetchError::Spawn(_) | PrefetchError::Panicked { .. } => {
                RunError::Prefetch(error.to_string())
            }
        }
    }
}
