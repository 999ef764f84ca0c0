//! Loads the parameters and the optimizer's slots of a checkpoint.

use std::path::Path;

use serde_json::Map;
use traind_models::tuning;
use traind_models::weights::{self, StoredArrays};
use traind_models::{Error as ModelError, Model, ModelConfig};
use traind_xla::runtime::HostArray;

use super::manifest::Manifest;
use super::training_state::OPTIMIZER;
use crate::error::{RunError, RunResult};
use crate::state::StoredSlots;

/// Checks a checkpoint, then loads its parameters.
pub(crate) fn load_checked(folder: &Path, model: &Model) -> RunResult<Vec<HostArray>> {
    let checked = Manifest::read(folder).and_then(|manifest| manifest.check(folder));
    let path = folder.to_owned();
    checked.map_err(|problem| RunError::CheckpointCorrupt { path, problem })?;
    load_parameters(folder, model)
}

/// Loads the parameters that are saved, all of which must exist in the model's shapes.
pub(super) fn load_parameters(folder: &Path, model: &Model) -> RunResult<Vec<HostArray>> {
    let has_adapters = folder.join("adapter_config.json").exists();
    match (has_adapters, !model.adapters().is_empty()) {
        (true, true) => tuning::load_adapter(folder, model).map_err(|error| unfit(folder, error)),
        (false, false) => load_whole(folder, model),
        (true, false) => Err(mismatch(folder, "it has adapters, and the job none".to_owned())),
        (false, true) => {
            Err(mismatch(folder, "it has a whole model, and the job trains adapters".to_owned()))
        }
    }
}

fn unfit(folder: &Path, error: ModelError) -> RunError {
    match error {
        ModelError::WeightShape { tensor, found, expected, .. } => {
            mismatch(folder, format!("its {tensor} is {found:?}, not {expected:?}"))
        }
        ModelError::MissingTensor { name, .. } => mismatch(folder, format!("it has no {name}")),
        error => error.into(),
    }
}

fn load_whole(folder: &Path, model: &Model) -> RunResult<Vec<HostArray>> {
    check_family(folder, model)?;
    // The seed does not matter, since no parameter is drawn.
    let loaded = weights::load(folder, model, 0).map_err(|error| unfit(folder, error))?;
    let report = loaded.report;
    if let Some(name) = report.missing.iter().chain(&report.initialized).next() {
        return Err(mismatch(folder, format!("it has no {name}")));
    }
    if let Some(name) = report.unexpected.first() {
        return Err(mismatch(folder, format!("the job's model has no {name}")));
    }
    Ok(loaded.arrays)
}

/// Refuses another family by name: a list of tensors that do not fit would explain little.
fn check_family(folder: &Path, model: &Model) -> RunResult<()> {
    let stored = ModelConfig::load(folder, &Map::new())?;
    let (found, expected) = (stored.model_type()?, model.config().model_type()?);
    match found == expected {
        true => Ok(()),
        false => {
            Err(mismatch(folder, format!("it is of a {found} model, not of a {expected} one")))
        }
    }
}

/// Opens the slots, which are read when they are put on the cores.
pub(super) fn open_slots(folder: &Path) -> RunResult<StoredSlots> {
    let arrays = StoredArrays::open(folder, OPTIMIZER)?;
    Ok(StoredSlots { folder: folder.to_owned(), arrays })
}

fn mismatch(folder: &Path, problem: String) -> RunError {
    RunError::CheckpointMismatch { path: folder.to_owned(), problem }
}
