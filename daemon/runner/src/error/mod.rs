//! The error of a run, and its one translation into the [`Failure`] that users and clients see.
//!
//! Imports no other room.

mod neuron_codes;

use std::error::Error as StdError;
use std::io::ErrorKind;
use std::path::PathBuf;

use rustix::io::Errno;
use traind_cache::Error as CacheError;
use traind_loader::{Error as LoaderError, ObjectProblem, SamplerError};
use traind_models::Error as ModelError;
use traind_pjrt::{Error as PjrtError, ErrorCode};
use traind_proto::event_log::EventLogError;
use traind_proto::reasons;
use traind_proto::v1::Failure;
use traind_xla::{DType, Error as XlaError};

use crate::hub::HubProblem;

pub(crate) type RunResult<T> = Result<T, RunError>;

#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Data(#[from] LoaderError),

    #[error(transparent)]
    Model(#[from] ModelError),

    #[error(transparent)]
    Device(#[from] XlaError),

    #[error("{name} of the job file names {value:?}: {problem}")]
    Field { name: &'static str, value: String, problem: String },

    #[error("{what} {id}: {problem}")]
    Hub { what: &'static str, id: String, field: &'static str, problem: Box<HubProblem> },

    /// The model wants an input that the loader does not make.
    #[error("the model needs the input {name} ({dtype}), and the data have none")]
    NoSuchInput { name: String, dtype: DType },

    #[error("the {what} of step {step} is {value}; {advice}")]
    NotFinite { what: &'static str, step: u64, value: f64, advice: &'static str },

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

    #[error("the checkpoint {} cannot be used: {problem}", path.display())]
    CheckpointCorrupt { path: PathBuf, problem: String },

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

    #[error(transparent)]
    EventLog(#[from] EventLogError),

    #[error("the runner panicked, which is a defect of traind: {0}")]
    Panicked(String),
}

impl From<PjrtError> for RunError {
    fn from(error: PjrtError) -> RunError {
        RunError::Device(XlaError::Pjrt(error))
    }
}

impl RunError {
    /// What the job's `Finished` event tells.
    pub(crate) fn failure(&self) -> Failure {
        let mut failure = Failure {
            reason: self.reason().to_owned(),
            message: chain(self),
            ..Failure::default()
        };
        let of_device = matches!(self, RunError::Device(_) | RunError::Model(ModelError::Xla(_)));
        if of_device && let Some(meaning) = neuron_codes::explain(&failure.message) {
            failure.message = format!("{meaning}\n{}", failure.message);
        }
        match self {
            RunError::Data(error) => blame_data(&mut failure, error),
            RunError::Model(error) => blame_model(&mut failure, error),
            RunError::Field { name, .. } => failure.field = Some((*name).to_owned()),
            RunError::Hub { field, .. } => failure.field = Some((*field).to_owned()),
            RunError::NotFinite { step, .. } => failure.step = Some(*step),
            RunError::Output { path, .. }
            | RunError::CheckpointNotFound { folder: path }
            | RunError::CheckpointCorrupt { path, .. }
            | RunError::CheckpointMismatch { path, .. }
            | RunError::DiskFull { path, .. } => failure.file = Some(path.display().to_string()),
            RunError::NoSuchMetric { .. } => {
                failure.field = Some("train.metric_for_best_model".to_owned());
            }
            _ => {}
        }
        failure
    }

    /// Whether the host's disk is at fault, so that the same run may succeed later. A run that has
    /// done nothing yet (not `began`) may be the one that asks for too much, or for the wrong place.
    pub(crate) fn is_transient(&self, began: bool) -> bool {
        match self {
            RunError::DiskFull { .. } => began,
            RunError::Data(LoaderError::Cache(CacheError::DiskFull { .. })) => true,
            RunError::Hub { problem, .. } => {
                began && matches!(**problem, HubProblem::DiskFull { .. })
            }
            _ => causes(self)
                .filter_map(<dyn StdError>::downcast_ref)
                .any(|error| passes(error, began)),
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            RunError::Data(error) => data_reason(error),
            RunError::Model(error) => model_reason(error),
            RunError::Device(error) => device_reason(error),
            RunError::Sampling(_) => reasons::DATA_EMPTY,
            RunError::Field { .. } => reasons::JOB_FILE_INVALID,
            RunError::Hub { problem, .. } => hub_reason(problem),
            RunError::NotFinite { .. } => reasons::LOSS_NOT_FINITE,
            RunError::Output { source, .. } => output_reason(source),
            RunError::EventLog(EventLogError::Io { .. }) | RunError::Service(_) => {
                reasons::RUN_DIRECTORY_FAILED
            }
            RunError::EventLog(_) => reasons::EVENT_LOG_CORRUPT,
            RunError::NoSuchInput { .. } => reasons::MODEL_UNSUPPORTED,
            RunError::CheckpointNotFound { .. } => reasons::CHECKPOINT_NOT_FOUND,
            RunError::CheckpointCorrupt { .. } => reasons::CHECKPOINT_CORRUPT,
            RunError::CheckpointMismatch { .. } => reasons::CHECKPOINT_MISMATCH,
            RunError::DiskFull { .. } => reasons::DISK_FULL,
            RunError::NoSuchMetric { .. } => reasons::METRIC_NOT_FOUND,
            RunError::Prefetch(_) | RunError::Panicked(_) | RunError::Thread(_) => {
                reasons::INTERNAL
            }
        }
    }
}

/// Whether a disk gets over this, or its operator sees to it.
fn passes(error: &std::io::Error, began: bool) -> bool {
    match Errno::from_io_error(error) {
        Some(Errno::IO | Errno::NOSPC | Errno::DQUOT | Errno::STALE) => true,
        Some(Errno::ROFS) => began,
        _ => false,
    }
}

fn causes<'e>(
    error: &'e (dyn StdError + 'static),
) -> impl Iterator<Item = &'e (dyn StdError + 'static)> {
    std::iter::successors(error.source(), |error| (*error).source())
}

/// An error with its causes, as far as it does not quote them itself.
fn chain(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    for cause in causes(error).map(ToString::to_string) {
        if !text.contains(&cause) {
            text = format!("{text}: {cause}");
        }
    }
    text
}

fn output_reason(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => reasons::DISK_FULL,
        _ => reasons::OUTPUT_FAILED,
    }
}

fn hub_reason(problem: &HubProblem) -> &'static str {
    match problem {
        HubProblem::NotFound
        | HubProblem::NoRevision { .. }
        | HubProblem::NoFile { .. }
        | HubProblem::NoMatch { .. }
        | HubProblem::NoSplit { .. }
        | HubProblem::PickleOnly
        | HubProblem::NotCached { .. } => reasons::FILE_NOT_FOUND,
        HubProblem::NoConfig { .. } | HubProblem::WhichConfig { .. } => reasons::JOB_FILE_INVALID,
        HubProblem::NoData { .. } => reasons::DATA_FORMAT_UNKNOWN,
        HubProblem::Corrupt { .. } => reasons::WEIGHTS_CORRUPT,
        HubProblem::DiskFull { .. } => reasons::DISK_FULL,
        HubProblem::Io { .. } => reasons::OUTPUT_FAILED,
        HubProblem::Gated
        | HubProblem::BadToken
        | HubProblem::Refused { .. }
        | HubProblem::Unreachable { .. } => reasons::FILE_UNREADABLE,
    }
}

fn blame_data(failure: &mut Failure, error: &LoaderError) {
    failure.file = error.file().map(|file| file.display().to_string());
    failure.row = error.location().map(|at| at.row);
    if let LoaderError::BadOption { field, .. } = error {
        failure.field = Some((*field).to_owned());
    }
}

fn data_reason(error: &LoaderError) -> &'static str {
    match error {
        LoaderError::NoFiles | LoaderError::NoMatch { .. } => reasons::FILE_NOT_FOUND,
        LoaderError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            reasons::FILE_NOT_FOUND
        }
        LoaderError::Io { .. } | LoaderError::IsFolder { .. } => reasons::FILE_UNREADABLE,
        LoaderError::Object { problem, .. } => match **problem {
            ObjectProblem::NoBucket | ObjectProblem::NotFound => reasons::FILE_NOT_FOUND,
            _ => reasons::FILE_UNREADABLE,
        },
        LoaderError::UnknownFormat { .. } => reasons::DATA_FORMAT_UNKNOWN,
        LoaderError::EmptyFile { .. } | LoaderError::NoRows { .. } => reasons::DATA_EMPTY,
        LoaderError::MissingColumn { .. } | LoaderError::DuplicateColumn { .. } => {
            reasons::COLUMN_NOT_FOUND
        }
        LoaderError::FieldCount { .. }
        | LoaderError::RowTooLong { .. }
        | LoaderError::EmptyText { .. }
        | LoaderError::LabelCount { .. }
        | LoaderError::Answer { .. } => reasons::DATA_ROW_INVALID,
        LoaderError::InvalidUtf8 { .. } => reasons::DATA_ENCODING_INVALID,
        LoaderError::NotText { .. } | LoaderError::NotTexts { .. } | LoaderError::Cast { .. } => {
            reasons::COLUMN_TYPE_INVALID
        }
        LoaderError::NoSplit { .. } => reasons::FILE_NOT_FOUND,
        LoaderError::Label { .. } => reasons::LABEL_INVALID,
        LoaderError::BadTokenizer { .. } | LoaderError::Tokenize { .. } => {
            reasons::TOKENIZER_INVALID
        }
        LoaderError::Cache(CacheError::DiskFull { .. }) => reasons::DISK_FULL,
        LoaderError::Cache(CacheError::Io { .. }) => reasons::FILE_UNREADABLE,
        LoaderError::Store { source, .. } => output_reason(source),
        LoaderError::TooManyLabels { .. }
        | LoaderError::OneLabel { .. }
        | LoaderError::LabelsAreNumbers { .. }
        | LoaderError::LabelFormat { .. } => reasons::LABEL_INVALID,
        LoaderError::BadOption { .. } | LoaderError::BadGlob { .. } => reasons::JOB_FILE_INVALID,
        _ => reasons::DATA_CORRUPT,
    }
}

fn blame_model(failure: &mut Failure, error: &ModelError) {
    match error {
        ModelError::WeightShape { path, tensor, .. }
        | ModelError::WeightDType { path, tensor, .. } => {
            failure.file = Some(path.display().to_string());
            failure.tensor = Some(tensor.clone());
        }
        ModelError::Config { path, .. }
        | ModelError::Corrupt { path, .. }
        | ModelError::Io { path, .. }
        | ModelError::Json { path, .. }
        | ModelError::Vocabulary { path, .. } => failure.file = Some(path.display().to_string()),
        ModelError::UnknownOverride { .. } => {
            failure.field = Some("model.config_overrides".to_owned());
        }
        ModelError::MissingWeight { name } => failure.tensor = Some(name.clone()),
        _ => {}
    }
}

fn model_reason(error: &ModelError) -> &'static str {
    match error {
        ModelError::WeightShape { .. } => reasons::TENSOR_SHAPE_MISMATCH,
        ModelError::MissingWeight { .. } => reasons::TENSOR_MISSING,
        ModelError::Corrupt { .. } | ModelError::WeightDType { .. } => reasons::WEIGHTS_CORRUPT,
        ModelError::NoWeights { .. } => reasons::FILE_NOT_FOUND,
        ModelError::Io { source, .. } if source.kind() == ErrorKind::NotFound => {
            reasons::FILE_NOT_FOUND
        }
        ModelError::Io { action: "write" | "clean", source, .. } => output_reason(source),
        ModelError::Io { .. } => reasons::FILE_UNREADABLE,
        ModelError::Vocabulary { .. } => reasons::VOCABULARY_TOO_LARGE,
        ModelError::UnknownModelType { .. } | ModelError::UnsupportedTask { .. } => {
            reasons::MODEL_UNSUPPORTED
        }
        ModelError::OutOfMemory { .. } => reasons::OUT_OF_MEMORY,
        ModelError::UnknownName { .. }
        | ModelError::Setting { .. }
        | ModelError::UnknownOverride { .. } => reasons::JOB_FILE_INVALID,
        ModelError::Xla(error) => device_reason(error),
        _ => reasons::MODEL_CONFIG_INVALID,
    }
}

fn device_reason(error: &XlaError) -> &'static str {
    let XlaError::Pjrt(error) = error else { return reasons::INTERNAL };
    match error {
        PjrtError::PluginNotFound { .. } => reasons::PLUGIN_NOT_FOUND,
        PjrtError::NotALibrary { .. }
        | PjrtError::NotAPlugin { .. }
        | PjrtError::VersionMismatch { .. } => reasons::PLUGIN_INVALID,
        PjrtError::Plugin { call: "PJRT_Client_Compile", .. } => reasons::COMPILE_FAILED,
        error if error.code() == ErrorCode::ResourceExhausted => reasons::OUT_OF_MEMORY,
        _ => reasons::DEVICE_FAILED,
    }
}
