//! Refuses models that a run could not load, before it waits for cores: configs without a model, and weights whose
//! headers do not fit.

use std::path::Path;

use traind_job_file::{JobFile, ModelSource, TaskName};
use traind_models::{Error as ModelError, Model, tuning, weights};
use traind_proto::reasons;
use traind_proto::v1::Failure;

use crate::error::{RunError, RunResult};
use traind_job_file::commands::{PlanViolation, PlanWarning};

/// Code of the warning about a model without weights.
const NO_WEIGHTS: &str = "NO_WEIGHTS";

/// Reasons of failures that lie in the folder of a model.
const OF_FOLDERS: [&str; 7] = [
    reasons::MODEL_CONFIG_INVALID,
    reasons::MODEL_UNSUPPORTED,
    reasons::TENSOR_SHAPE_MISMATCH,
    reasons::TENSOR_MISSING,
    reasons::WEIGHTS_CORRUPT,
    reasons::FILE_NOT_FOUND,
    reasons::FILE_UNREADABLE,
];

/// Checks the headers of the weights that a job starts from. `must_exist`: a plan alone needs only configs.
pub(in crate::plan) fn check(job: &JobFile, model: &Model, must_exist: bool) -> RunResult<()> {
    let has_weights = |folder: &Path| must_exist || weights::exist(folder);
    if let ModelSource::Folder(folder) = &job.model.name_or_path
        && !job.model.from_config
        && has_weights(folder)
    {
        let fits_all = !job.model.ignore_mismatched_sizes;
        let labels = knows_labels(job);
        let is_checked = |spec: &_| fits_all && (labels || !weights::is_of_head(model, spec));
        weights::check(folder, model, is_checked)?;
    }
    if let Some(folder) = &job.peft.adapter_name_or_path
        && knows_labels(job)
    {
        tuning::check_adapter(folder, model)?;
    }
    match job.reference_model() {
        Some((_, ModelSource::Folder(folder))) if has_weights(folder) => {
            let is_own = |spec: &traind_models::ParameterSpec| !model.adapters().owns(&spec.name);
            Ok(weights::check(folder, model, is_own)?)
        }
        _ => Ok(()),
    }
}

/// The warnings about models without weights, which a plan does not need and a job does.
pub(in crate::plan) fn warnings(job: &JobFile) -> impl Iterator<Item = PlanWarning> {
    let is_drawn = |field: &str| job.model.from_config && field.starts_with("model.");
    let lacking = job.models().filter_map(move |(field, source)| match source {
        ModelSource::Folder(folder) if !is_drawn(field) && !weights::exist(folder) => {
            Some((field, folder))
        }
        _ => None,
    });
    lacking.map(|(field, folder)| {
        let remedy = match field {
            "model.name_or_path" => "; model.from_config: true trains from random weights",
            _ => "",
        };
        PlanWarning {
            code: NO_WEIGHTS.to_owned(),
            message: format!(
                "{field}: {} has no model.safetensors, and the job is refused until it has{remedy}",
                folder.display()
            ),
        }
    })
}

/// Returns whether the size of the head does not depend on the data.
pub(in crate::plan) fn knows_labels(job: &JobFile) -> bool {
    let of_data = matches!(
        job.model.task,
        TaskName::SequenceClassification
            | TaskName::TokenClassification
            | TaskName::ImageClassification
    );
    !of_data || job.model.num_labels.is_some() || job.data.label_map.is_some()
}

/// The violation of a model's folder that an error reports, if it is one. A folder that another job is about to write
/// says nothing yet.
pub(in crate::plan) fn violation(job: &JobFile, error: &RunError) -> Option<PlanViolation> {
    // Rows that are too long are the data's fault, of which the run says more.
    let RunError::Model(source) = error else { return None };
    if matches!(source, ModelError::TooManyPositions { .. }) {
        return None;
    }
    let Failure { reason, message, file, .. } = error.failure();
    if job.resources.after.is_some() || !OF_FOLDERS.contains(&reason.as_str()) {
        return None;
    }
    let file = file.unwrap_or_default();
    let is_in = |(_, folder): &(&str, &Path)| Path::new(&file).starts_with(folder);
    // An adapter's folder may lie in its model's.
    let folders = job.weight_folders().filter(is_in);
    let inner = folders.max_by_key(|(_, folder)| folder.components().count());
    let field = inner.map_or("model.name_or_path", |(field, _)| field).to_owned();
    Some(PlanViolation { field, description: message })
}
