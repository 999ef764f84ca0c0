//! Loads the weights and the optimizer's slots of a checkpoint that is whole.

use std::path::Path;

use serde_json::Map;
use traind_models::weights::{self, SafetensorsFile};
use traind_models::{Error as ModelError, Model, ModelConfig};
use traind_xla::runtime::HostArray;

use super::manifest::Manifest;
use super::training_state::OPTIMIZER;
use crate::error::{RunError, RunResult};
use crate::state::{SlotArrays, StoredSlots};

/// The parameters of a checkpoint that is checked first.
pub(crate) fn load_whole(folder: &Path, model: &dyn Model) -> RunResult<Vec<HostArray>> {
    let checked = Manifest::read(folder).and_then(|manifest| manifest.check(folder));
    let path = folder.to_owned();
    checked.map_err(|problem| RunError::CheckpointCorrupt { path, problem })?;
    load_parameters(folder, model)
}

/// The parameters, each of which must be there in the model's shape.
pub(super) fn load_parameters(folder: &Path, model: &dyn Model) -> RunResult<Vec<HostArray>> {
    check_family(folder, model)?;
    // No parameter is drawn, so the seed does not matter.
    let loaded = weights::load(folder, model, 0).map_err(|error| match error {
        ModelError::WeightShape { tensor, found, expected, .. } => {
            mismatch(folder, format!("its {tensor} is {found:?}, not {expected:?}"))
        }
        error => error.into(),
    })?;
    let report = loaded.report;
    if let Some(name) = report.missing.iter().chain(&report.initialized).next() {
        return Err(mismatch(folder, format!("it has no {name}")));
    }
    if let Some(name) = report.unexpected.first() {
        return Err(mismatch(folder, format!("the job's model has no {name}")));
    }
    Ok(loaded.arrays)
}

/// Of another family nothing fits, and the names of its tensors would say little.
fn check_family(folder: &Path, model: &dyn Model) -> RunResult<()> {
    let stored = ModelConfig::load(folder, &Map::new())?;
    let (found, wanted) = (stored.model_type()?, model.config().model_type()?);
    match found == wanted {
        true => Ok(()),
        false => Err(mismatch(folder, format!("it is of a {found} model, not of a {wanted} one"))),
    }
}

pub(super) fn load_slots(folder: &Path) -> RunResult<StoredSlots> {
    let file = SafetensorsFile::open(&folder.join(OPTIMIZER))?;
    let mut arrays = SlotArrays::new();
    for name in file.names() {
        let array = file.read_f32(&name)?;
        arrays.insert(name, array);
    }
    Ok(StoredSlots { folder: folder.to_owned(), arrays })
}

fn mismatch(folder: &Path, problem: String) -> RunError {
    RunError::CheckpointMismatch { path: folder.to_owned(), problem }
}
