//! The failure that a run's last event reports.

use std::error::Error as StdError;

use traind_cache::Error as CacheError;
use traind_hub::Problem as HubProblem;
use traind_loader::Error as LoaderError;
use traind_models::Error as ModelError;
use traind_proto::error_chain::{causes, error_chain};
use traind_proto::reasons;
use traind_proto::v1::Failure;

use super::{RunError, log, reason};

impl RunError {
    /// Whether work that takes long was given up, as after a request to stop.
    pub(crate) fn is_abandoned(&self) -> bool {
        matches!(self, RunError::Data(LoaderError::Abandoned))
    }

    /// The error as the job's `Finished` event reports it.
    pub(crate) fn failure(&self) -> Failure {
        let mut failure = Failure {
            reason: reason::of_run(self).to_owned(),
            message: error_chain(self),
            ..Failure::default()
        };
        if self.is_of_device()
            && let Some((meaning, line)) = log::explained(&failure.message)
        {
            failure.reason = reason::of_neuron(&failure.reason, meaning.cause).to_owned();
            let line = line.map(|line| format!("\n{line}")).unwrap_or_default();
            failure.message = format!("{meaning}\n{}{line}", failure.message);
        }
        self.locate(&mut failure);
        failure
    }

    /// Whether a device, its plugin or its compiler failed, whose codes have explanations.
    pub(super) fn is_of_device(&self) -> bool {
        matches!(self, RunError::Device(_) | RunError::Model(ModelError::Xla(_)))
    }

    /// Sets the field, file, row, tensor or step at fault.
    fn locate(&self, failure: &mut Failure) {
        match self {
            RunError::Data(error) => locate_data(failure, error),
            RunError::Model(error) => locate_model(failure, error),
            RunError::Field { name: field, .. }
            | RunError::Hub { field, .. }
            | RunError::Bucket { field, .. } => {
                failure.field = Some((*field).to_owned());
            }
            RunError::Several(errors) => errors.iter().take(1).for_each(|it| it.locate(failure)),
            RunError::Publish { .. } => failure.field = Some("train.push_to_hub".to_owned()),
            RunError::NotFinite { step, .. } => failure.step = Some(*step),
            RunError::OutputOccupied(conflict) => {
                failure.field = Some(conflict.field.to_owned());
                failure.file = Some(conflict.folder.display().to_string());
            }
            RunError::Output { path, .. }
            | RunError::OutputInUse { folder: path, .. }
            | RunError::CheckpointNotFound { folder: path }
            | RunError::NoSuchCheckpoint { folder: path, .. }
            | RunError::CheckpointCorrupt { path, .. }
            | RunError::CheckpointMismatch { path, .. }
            | RunError::NotShared { path, .. }
            | RunError::DiskFull { path, .. } => failure.file = Some(path.display().to_string()),
            RunError::NoSuchMetric { .. } => {
                failure.field = Some("train.metric_for_best_model".to_owned());
            }
            RunError::Device(_)
            | RunError::OnlyInBucket { .. }
            | RunError::MissingDevices { .. }
            | RunError::NoSuchInput { .. }
            | RunError::InputType { .. }
            | RunError::NoCache
            | RunError::Decode(_)
            | RunError::Sampling(_)
            | RunError::Prefetch(_)
            | RunError::Thread(_)
            | RunError::Service(_)
            | RunError::EventLog(_)
            | RunError::Launch(_)
            | RunError::Rendezvous(_)
            | RunError::HostsDiffer { .. }
            | RunError::Panicked(_) => {}
        }
    }

    /// Whether the host's disk or its missing plugin, another host, or the way to a bucket or the hub, is at fault, so
    /// that the same run may succeed later. A run that has not `begun` may itself need too much space, or write to the
    /// wrong place.
    pub(crate) fn is_transient(&self, begun: bool) -> bool {
        match self {
            RunError::DiskFull { .. } => begun,
            RunError::Rendezvous(error) => error.may_pass(),
            RunError::Bucket { source, .. } => begun && source.problem.may_pass(),
            RunError::Publish { source } => begun && source.problem.may_pass(),
            RunError::Data(LoaderError::Cache(CacheError::DiskFull { .. })) => true,
            RunError::Hub { source, .. } => {
                begun && matches!(*source.problem, HubProblem::DiskFull { .. })
            }
            // The plugin was there when the daemon started the runner, and is being replaced.
            error if error.failure().reason == reasons::PLUGIN_NOT_FOUND => true,
            _ => causes(self)
                .filter_map(<dyn StdError>::downcast_ref)
                .any(|error| disk_may_recover(error, begun)),
        }
    }
}

/// Whether the error is a failure of the disk that may pass, or be repaired by the host's
/// administrator. A run that has not `begun` may name a file system that is always read-only.
fn disk_may_recover(error: &std::io::Error, begun: bool) -> bool {
    traind_durable::is_disk_failure(error)
        && (begun || error.kind() != std::io::ErrorKind::ReadOnlyFilesystem)
}

fn locate_data(failure: &mut Failure, error: &LoaderError) {
    failure.file = error.file().map(|file| file.display().to_string());
    failure.row = error.location().map(|at| at.row);
    if let LoaderError::BadOption { field, .. } = error {
        failure.field = Some((*field).to_owned());
    }
}

fn locate_model(failure: &mut Failure, error: &ModelError) {
    match error {
        ModelError::WeightShape { path, tensor, .. }
        | ModelError::WeightDType { path, tensor, .. } => {
            failure.file = Some(path.display().to_string());
            failure.tensor = Some(tensor.clone());
        }
        ModelError::Config { path, .. }
        | ModelError::Corrupt { path, .. }
        | ModelError::Gguf { path, .. }
        | ModelError::Io { path, .. }
        | ModelError::Json { path, .. }
        | ModelError::OnlyAdapters { folder: path, .. }
        | ModelError::PickledWeights { path }
        | ModelError::PickledAdapters { path }
        | ModelError::Vocabulary { path, .. } => failure.file = Some(path.display().to_string()),
        ModelError::UnknownOverride { .. } => {
            failure.field = Some("model.config_overrides".to_owned());
        }
        ModelError::Indivisible { parameter, .. } => {
            failure.field = Some("parallel.tensor".to_owned());
            failure.tensor = Some(parameter.clone());
        }
        ModelError::NoTensorParallelism { .. } => {
            failure.field = Some("parallel.tensor".to_owned());
        }
        ModelError::EmptyGroup { .. } => failure.field = Some("train.param_groups".to_owned()),
        ModelError::UnfitLoss { .. } => failure.field = Some("train.loss".to_owned()),
        ModelError::ClassWeights { .. } => {
            failure.field = Some("train.class_weights".to_owned());
        }
        ModelError::NoSuchModule { field, .. }
        | ModelError::NotLinear { field, .. }
        | ModelError::NothingToTrain { field }
        | ModelError::TiedModule { field, .. }
        | ModelError::JoinedModules { field, .. }
        | ModelError::TokenIndices { field, .. } => failure.field = Some((*field).to_owned()),
        ModelError::MissingTensor { path, name } => {
            failure.file = Some(path.display().to_string());
            failure.tensor = Some(name.clone());
        }
        ModelError::MissingElements { folder, name, .. } => {
            failure.file = Some(folder.display().to_string());
            failure.tensor = Some(name.clone());
        }
        ModelError::MissingWeight { name } => failure.tensor = Some(name.clone()),
        ModelError::UnknownModelType { .. }
        | ModelError::UnsupportedTask { .. }
        | ModelError::NoGeneration { .. }
        | ModelError::UnknownName { .. }
        | ModelError::Setting { .. }
        | ModelError::OptimArg { .. }
        | ModelError::Pattern { .. }
        | ModelError::TooManyPositions { .. }
        | ModelError::MissingInput { .. }
        | ModelError::NoWeights { .. }
        | ModelError::ArrayShape { .. }
        | ModelError::NotHeld { .. }
        | ModelError::OutOfMemory { .. }
        | ModelError::Xla(_) => {}
    }
}
