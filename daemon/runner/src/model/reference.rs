//! The frozen reference that `dpo.ref_model_name_or_path` or `kto.ref_model_name_or_path` names.
//!
//! It is a model with a config of its own, which decides how it computes. On the cores, its weights
//! stand beside those of the trained model by their names, divided alike, so both models must have the
//! same parameters.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use traind_hub::ModelRequest;
use traind_job_file::{JobFile, ModelSource};
use traind_models::{Model, ModelConfig, ParameterSpec, registry, weights};
use traind_xla::runtime::HostArray;

use super::{all_loaded, folder_of, load_config, of_kind, planned_config, shown};
use crate::error::{RunError, RunResult};
use crate::recipe;
use crate::reporting::Downloads;

/// A reference without weights.
#[derive(Clone)]
pub(crate) struct NamedReference {
    folder: PathBuf,
    pub model: Arc<Model>,
}

impl NamedReference {
    /// Opens the reference of a job that trains `policy`; `None` where the reference is the model
    /// that training starts from.
    pub(super) fn open(
        job: &JobFile,
        policy: &Model,
        downloads: &Downloads,
    ) -> RunResult<Option<NamedReference>> {
        let Some((field, source)) = job.reference_model() else { return Ok(None) };
        let folder = folder_of(field, source, request, downloads)?;
        let model = build(job, field, source, load_config(job, &folder)?, policy)?;
        Ok(Some(NamedReference { folder, model }))
    }

    /// Reads the weights in the order and the types of the parameters of `policy`. Adapters, which
    /// the reference has not, are drawn.
    pub(crate) fn weights(&self, policy: &Model, seed: u64) -> RunResult<Vec<HostArray>> {
        all_loaded(&self.folder, weights::load(&self.folder, policy, seed)?)
    }
}

/// Refuses a reference that does not fit `policy`, by its config alone. Writes nothing.
pub(crate) fn check_reference(job: &JobFile, policy: &Model, may_fetch: bool) -> RunResult<()> {
    let Some((field, source)) = job.reference_model() else { return Ok(()) };
    let config = planned_config(job, field, source, request, may_fetch)?;
    build(job, field, source, config, policy).map(drop)
}

/// The request for a reference of the hub, of the main branch.
fn request(id: &str) -> ModelRequest {
    ModelRequest { id: id.to_owned(), revision: None, with_weights: true }
}

fn build(
    job: &JobFile,
    field: &'static str,
    source: &ModelSource,
    config: ModelConfig,
    policy: &Model,
) -> RunResult<Arc<Model>> {
    let model = registry::build(config, recipe::task(&job.model)?);
    let model = model.map_err(|error| of_kind(field, error.into()))?;
    let Some(difference) = difference(policy, &model) else { return Ok(model.into()) };
    Err(RunError::Field {
        name: field,
        value: shown(source),
        problem: format!(
            "a reference has the parameters of the trained model, which is {}: {difference}",
            shown(&job.model.name_or_path)
        ),
    })
}

/// Describes the first parameter by which `reference` does not fit `policy`.
fn difference(policy: &Model, reference: &Model) -> Option<String> {
    let own = |name: &str| !policy.adapters().owns(name);
    let expected = policy.parameters().iter().filter(|spec| own(&spec.name));
    let mut found: HashMap<&str, &ParameterSpec> =
        reference.parameters().iter().map(|spec| (spec.name.as_str(), spec)).collect();
    for spec in expected {
        let Some(other) = found.remove(spec.name.as_str()) else {
            return Some(format!("the reference has no {}", spec.name));
        };
        if let Some(difference) = difference_of(spec, other) {
            return Some(difference);
        }
    }
    let mut more = reference.parameters().iter().map(|spec| spec.name.as_str());
    let more = more.find(|name| found.contains_key(name))?;
    Some(format!("the reference also has {more}"))
}

/// Describes how two parameters of one name differ.
fn difference_of(policy: &ParameterSpec, reference: &ParameterSpec) -> Option<String> {
    let described =
        |spec: &ParameterSpec| [format!("{:?}", spec.shape.dims), format!("{:?}", spec.partitions)];
    let pairs = described(policy).into_iter().zip(described(reference));
    let (expected, found) = pairs.into_iter().find(|(expected, found)| expected != found)?;
    Some(format!("{} is {found} in the reference and {expected} in the model", policy.name))
}
