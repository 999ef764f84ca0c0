//! The machine-readable reason of each error. Every match is exhaustive, so that a new variant
//! gets a reason of its own choice.

use std::io::{self, ErrorKind};

use traind_bucket::Problem as BucketProblem;
use traind_cache::Error as CacheError;
use traind_hub::Problem as HubProblem;
use traind_loader::{ChatProblem, Error as LoaderError, ImageProblem, ObjectProblem};
use traind_models::Error as ModelError;
use traind_mpi::Error as MpiError;
use traind_neuron::Cause;
use traind_pjrt::{Error as PjrtError, ErrorCode};
use traind_proto::event_log::EventLogError;
use traind_proto::reasons;
use traind_xla::Error as XlaError;

use super::RunError;

pub(super) fn of_run(error: &RunError) -> &'static str {
    match error {
        RunError::Data(error) => of_data(error),
        RunError::Model(error) => of_model(error),
        RunError::Device(error) => of_device(error),
        RunError::Sampling(_) => reasons::DATA_EMPTY,
        RunError::Field { .. } => reasons::JOB_FILE_INVALID,
        RunError::Several(errors) => errors.first().map_or(reasons::INTERNAL, of_run),
        RunError::Bucket { source, .. } => match &*source.problem {
            BucketProblem::Io { source, .. } => of_write(source),
            _ => reasons::BUCKET_FAILED,
        },
        RunError::Hub { source, .. } => of_hub(&source.problem),
        RunError::Publish { source } => match &*source.problem {
            HubProblem::Io { source, .. } => of_write(source),
            _ => reasons::HUB_FAILED,
        },
        RunError::NotFinite { .. } => reasons::LOSS_NOT_FINITE,
        RunError::Output { source, .. } => of_write(source),
        RunError::OutputOccupied(_) => reasons::OUTPUT_DIR_OCCUPIED,
        RunError::OutputInUse { .. } => reasons::OUTPUT_DIR_IN_USE,
        RunError::EventLog(EventLogError::Io { .. }) | RunError::Service(_) => {
            reasons::RUN_DIRECTORY_FAILED
        }
        RunError::EventLog(
            EventLogError::Corrupt { .. }
            | EventLogError::Locked { .. }
            | EventLogError::TooLarge { .. },
        ) => reasons::EVENT_LOG_CORRUPT,
        RunError::MissingDevices { .. } => reasons::DEVICE_NOT_FOUND,
        RunError::NoSuchInput { .. } | RunError::InputType { .. } | RunError::Decode(_) => {
            reasons::MODEL_UNSUPPORTED
        }
        RunError::CheckpointNotFound { .. }
        | RunError::NoSuchCheckpoint { .. }
        | RunError::OnlyInBucket { .. } => reasons::CHECKPOINT_NOT_FOUND,
        RunError::CheckpointCorrupt { .. } => reasons::CHECKPOINT_CORRUPT,
        RunError::CheckpointMismatch { .. } => reasons::CHECKPOINT_MISMATCH,
        RunError::DiskFull { .. } => reasons::DISK_FULL,
        RunError::NoSuchMetric { .. } => reasons::METRIC_NOT_FOUND,
        RunError::Launch(_) | RunError::Rendezvous(_) => reasons::HOSTS_NOT_MET,
        RunError::HostsDiffer { .. } | RunError::NotShared { .. } => reasons::HOSTS_DIFFER,
        RunError::NoCache | RunError::Prefetch(_) | RunError::Panicked(_) | RunError::Thread(_) => {
            reasons::INTERNAL
        }
    }
}

fn of_write(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => reasons::DISK_FULL,
        _ => reasons::OUTPUT_FAILED,
    }
}

fn of_read(error: &io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound => reasons::FILE_NOT_FOUND,
        _ => reasons::FILE_UNREADABLE,
    }
}

fn of_hub(problem: &HubProblem) -> &'static str {
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
        HubProblem::File { problem, .. } => of_hub(problem),
        HubProblem::Offline
        | HubProblem::NoToken
        | HubProblem::Forbidden { .. }
        | HubProblem::Rejected { .. }
        | HubProblem::NotStored { .. }
        | HubProblem::Abandoned => reasons::HUB_FAILED,
        HubProblem::Gated
        | HubProblem::BadToken
        | HubProblem::Refused { .. }
        | HubProblem::Unreachable { .. } => reasons::FILE_UNREADABLE,
    }
}

fn of_data(error: &LoaderError) -> &'static str {
    match error {
        LoaderError::NoFiles | LoaderError::NoMatch { .. } | LoaderError::NoSplit { .. } => {
            reasons::FILE_NOT_FOUND
        }
        LoaderError::Io { source, .. } => of_read(source),
        LoaderError::IsFolder { .. }
        | LoaderError::NotAFile { .. }
        | LoaderError::NameNotUtf8 { .. }
        | LoaderError::MisplacedImage { .. }
        | LoaderError::MisplacedText { .. }
        | LoaderError::Cache(CacheError::Io { .. }) => reasons::FILE_UNREADABLE,
        LoaderError::Object { problem, .. } => of_object(problem),
        LoaderError::UnknownFormat { .. } => reasons::DATA_FORMAT_UNKNOWN,
        LoaderError::EmptyFile { .. }
        | LoaderError::NoRows { .. }
        | LoaderError::NoRowsLeft { .. } => reasons::DATA_EMPTY,
        LoaderError::MissingColumns { .. }
        | LoaderError::NoTexts { .. }
        | LoaderError::ColumnsOfOthers { .. }
        | LoaderError::DuplicateColumn { .. } => reasons::COLUMN_NOT_FOUND,
        LoaderError::FieldCount { .. }
        | LoaderError::RowTooLong { .. }
        | LoaderError::EmptyText { .. }
        | LoaderError::LabelCount { .. }
        | LoaderError::Weight { .. }
        | LoaderError::Answer { .. } => reasons::DATA_ROW_INVALID,
        LoaderError::InvalidUtf8 { .. } | LoaderError::Encoding { .. } => {
            reasons::DATA_ENCODING_INVALID
        }
        LoaderError::NotText { .. }
        | LoaderError::NotTexts { .. }
        | LoaderError::Passages { .. }
        | LoaderError::Cast { .. } => reasons::COLUMN_TYPE_INVALID,
        LoaderError::Label { .. }
        | LoaderError::TooManyLabels { .. }
        | LoaderError::OneLabel { .. }
        | LoaderError::LabelsAreNumbers { .. }
        | LoaderError::ClassesAreNumbers { .. }
        | LoaderError::OneClass { .. }
        | LoaderError::MissingLabels { .. }
        | LoaderError::NamesAndNumbers { .. }
        | LoaderError::LabelFormat { .. } => reasons::LABEL_INVALID,
        LoaderError::Chat { problem, .. } => match **problem {
            ChatProblem::NoTemplate | ChatProblem::Template { .. } => reasons::TOKENIZER_INVALID,
            _ => reasons::DATA_ROW_INVALID,
        },
        LoaderError::Image { problem, .. } => match **problem {
            ImageProblem::Kind { .. } => reasons::DATA_ROW_INVALID,
            ImageProblem::Unreadable { .. } => reasons::FILE_UNREADABLE,
            _ => reasons::DATA_CORRUPT,
        },
        LoaderError::BadTokenizer { .. }
        | LoaderError::BadTemplate { .. }
        | LoaderError::BadProcessor { .. }
        | LoaderError::Tokenize { .. } => reasons::TOKENIZER_INVALID,
        LoaderError::Cache(CacheError::DiskFull { .. }) => reasons::DISK_FULL,
        LoaderError::Store { source, .. } => of_write(source),
        LoaderError::BadOption { .. } | LoaderError::BadGlob { .. } => reasons::JOB_FILE_INVALID,
        LoaderError::TooManyRows { .. }
        | LoaderError::UnclosedQuote { .. }
        | LoaderError::BadRow { .. }
        | LoaderError::BadFile { .. }
        | LoaderError::Panicked { .. }
        | LoaderError::Abandoned
        | LoaderError::FileChanged { .. } => reasons::DATA_CORRUPT,
    }
}

fn of_object(problem: &ObjectProblem) -> &'static str {
    match problem {
        ObjectProblem::NoBucket | ObjectProblem::NotFound => reasons::FILE_NOT_FOUND,
        ObjectProblem::NotAUrl
        | ObjectProblem::Denied
        | ObjectProblem::Unauthenticated
        | ObjectProblem::Changed
        | ObjectProblem::Failed { .. }
        | ObjectProblem::Unsupported => reasons::FILE_UNREADABLE,
    }
}

fn of_model(error: &ModelError) -> &'static str {
    match error {
        ModelError::WeightShape { .. } => reasons::TENSOR_SHAPE_MISMATCH,
        ModelError::MissingWeight { .. }
        | ModelError::MissingTensor { .. }
        | ModelError::MissingElements { .. } => reasons::TENSOR_MISSING,
        ModelError::Corrupt { .. } | ModelError::WeightDType { .. } | ModelError::Gguf { .. } => {
            reasons::WEIGHTS_CORRUPT
        }
        ModelError::NoWeights { .. }
        | ModelError::OnlyAdapters { .. }
        | ModelError::PickledWeights { .. }
        | ModelError::PickledAdapters { .. } => reasons::FILE_NOT_FOUND,
        ModelError::Io { action: "write" | "clean", source, .. }
            if source.kind() != ErrorKind::NotFound =>
        {
            of_write(source)
        }
        ModelError::Io { source, .. } => of_read(source),
        ModelError::Vocabulary { .. } => reasons::VOCABULARY_TOO_LARGE,
        ModelError::UnknownModelType { .. }
        | ModelError::UnsupportedTask { .. }
        | ModelError::NoGeneration { .. } => reasons::MODEL_UNSUPPORTED,
        ModelError::OutOfMemory { .. } => reasons::OUT_OF_MEMORY,
        ModelError::UnknownName { .. }
        | ModelError::Setting { .. }
        | ModelError::OptimArg { .. }
        | ModelError::Indivisible { .. }
        | ModelError::NoTensorParallelism { .. }
        | ModelError::NoSuchModule { .. }
        | ModelError::NotLinear { .. }
        | ModelError::Pattern { .. }
        | ModelError::EmptyGroup { .. }
        | ModelError::UnfitLoss { .. }
        | ModelError::ClassWeights { .. }
        | ModelError::NothingToTrain { .. }
        | ModelError::TiedModule { .. }
        | ModelError::JoinedModules { .. }
        | ModelError::TokenIndices { .. }
        | ModelError::UnknownOverride { .. } => reasons::JOB_FILE_INVALID,
        ModelError::Xla(error) => of_device(error),
        ModelError::Json { .. }
        | ModelError::Config { .. }
        | ModelError::TooManyPositions { .. }
        | ModelError::MissingInput { .. }
        | ModelError::ArrayShape { .. }
        | ModelError::NotHeld { .. } => reasons::MODEL_CONFIG_INVALID,
    }
}

fn of_device(error: &XlaError) -> &'static str {
    match error {
        XlaError::Pjrt(error) => of_plugin(error),
        XlaError::Mpi(error) => of_mpi(error),
        XlaError::NoHosts { .. } => reasons::JOB_FILE_INVALID,
        XlaError::Shape { .. }
        | XlaError::NotDifferentiable { .. }
        | XlaError::NotAScalarLoss { .. }
        | XlaError::ForeignTensor { .. }
        | XlaError::Malformed { .. }
        | XlaError::Mesh { .. }
        | XlaError::Placement { .. }
        | XlaError::Value { .. }
        | XlaError::WrongDType { .. }
        | XlaError::Count { .. }
        | XlaError::NotLocal { .. }
        | XlaError::NoValue { .. }
        | XlaError::NotPrepared { .. }
        | XlaError::NotFetched { .. }
        | XlaError::Io { .. } => reasons::INTERNAL,
    }
}

/// The reason of an error that Neuron's compiler or runtime explains: a restart helps against some causes alone.
/// `found`: that of the call that failed.
pub(super) fn of_neuron(found: &str, cause: Cause) -> &'static str {
    match cause {
        Cause::HostMemory => reasons::HOST_MEMORY_FULL,
        _ if found == reasons::COMPILE_FAILED => reasons::COMPILE_FAILED,
        cause if cause.may_pass() => reasons::DEVICE_FAILED,
        Cause::Size => reasons::OUT_OF_MEMORY,
        Cause::Values => reasons::LOSS_NOT_FINITE,
        Cause::Setup => reasons::PLUGIN_INVALID,
        _ => reasons::INTERNAL,
    }
}

fn of_mpi(error: &MpiError) -> &'static str {
    match error {
        MpiError::Library { .. } => reasons::PLUGIN_NOT_FOUND,
        MpiError::NotTheAbi { .. } => reasons::PLUGIN_INVALID,
        MpiError::Call { .. }
        | MpiError::Place { .. }
        | MpiError::StartedBefore
        | MpiError::NotStarted
        | MpiError::Device { .. }
        | MpiError::Ended
        | MpiError::Thread { .. } => reasons::DEVICE_FAILED,
    }
}

fn of_plugin(error: &PjrtError) -> &'static str {
    match error {
        PjrtError::PluginNotFound { .. } => reasons::PLUGIN_NOT_FOUND,
        PjrtError::NotALibrary { .. }
        | PjrtError::NotAPlugin { .. }
        | PjrtError::VersionMismatch { .. } => reasons::PLUGIN_INVALID,
        PjrtError::Plugin { call: "PJRT_Client_Compile", .. } => reasons::COMPILE_FAILED,
        error if error.code() == ErrorCode::ResourceExhausted => reasons::OUT_OF_MEMORY,
        PjrtError::Plugin { .. }
        | PjrtError::Unimplemented { .. }
        | PjrtError::Contract { .. }
        | PjrtError::CompileOption { .. }
        | PjrtError::DeviceCount { .. }
        | PjrtError::ArgumentCount { .. }
        | PjrtError::ArgumentDeleted { .. }
        | PjrtError::BufferDeleted { .. }
        | PjrtError::ForeignHandle { .. }
        | PjrtError::ArgumentShape { .. }
        | PjrtError::ArgumentDevice { .. }
        | PjrtError::LaunchFailedBefore { .. }
        | PjrtError::HostSize { .. }
        | PjrtError::ShapeTooLarge { .. }
        | PjrtError::DTypeMismatch { .. }
        | PjrtError::UnknownDType { .. }
        | PjrtError::NoSuchMemory { .. }
        | PjrtError::ProgramFormat { .. } => reasons::DEVICE_FAILED,
    }
}
