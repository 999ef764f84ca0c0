//! Writes one checkpoint: aside, every file synced, the manifest last and with it the
//! names of all, then the folder's own name, then the folder that holds that.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use traind_models::weights;

use super::list::{folder_name, partial};
use super::manifest::Manifest;
use super::snapshot::Snapshot;
use super::training_state::{OPTIMIZER, TRAINER_STATE, TRAINING_STATE};
use crate::error::RunResult;
use crate::model::OpenModel;
use crate::output::{self, failed};

/// Returns the folder and the bytes of its files.
pub(super) fn write(
    output_dir: &Path,
    job_id: &str,
    open: &OpenModel,
    snapshot: &Snapshot,
) -> RunResult<(PathBuf, u64)> {
    let aside = partial(output_dir, snapshot.step);
    let path = output_dir.join(folder_name(snapshot.step));
    fs::create_dir(&aside).map_err(failed("create", &aside))?;
    write_files(&aside, open, snapshot)?;
    let manifest = Manifest::write(&aside, job_id, snapshot.step)?;
    put_in_place(&aside, &path).map_err(failed("rename", &aside))?;
    output::sync_folder(output_dir)?;
    if aside.exists() {
        fs::remove_dir_all(&aside).map_err(failed("remove", &aside))?;
    }
    Ok((path, manifest.bytes()))
}

fn write_files(folder: &Path, open: &OpenModel, snapshot: &Snapshot) -> RunResult<()> {
    open.save_weights(folder, &snapshot.parameters)?;
    let slots = snapshot.slots.iter().map(|(name, array)| (name.as_str(), array));
    weights::save_tensors(&folder.join(OPTIMIZER), slots)?;
    output::copy_tokenizer(&open.folder, folder)?;
    write_json(&folder.join(TRAINER_STATE), &snapshot.trainer)?;
    write_json(&folder.join(TRAINING_STATE), &snapshot.training)
}

fn write_json(path: &Path, value: &impl Serialize) -> RunResult<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|error| failed("serialize", path)(error.into()))?;
    output::write_of_several(path, &text)
}

/// Gives the folder its name. One that has it already, which is damaged or of
/// a run that began again, changes places with it in one step.
fn put_in_place(aside: &Path, path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return Ok(renameat_with(CWD, aside, CWD, path, RenameFlags::EXCHANGE)?);
    }
    fs::rename(aside, path)
}
