//! Writes one checkpoint into a temporary folder: every file synced, then the manifest with the names
//! of all. The folder is renamed last, and its parent synced.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use traind_models::weights;

use super::list::partial_folder;
use super::manifest::Manifest;
use super::snapshot::{Resumption, Snapshot};
use super::training_state::{OPTIMIZER, TRAINER_STATE, TRAINING_STATE};
use crate::error::RunResult;
use crate::model::OpenModel;
use crate::output::{self, checkpoint_folder, failed};

/// Returns the checkpoint's folder and the bytes of its files.
pub(super) fn write(
    output_dir: &Path,
    job_id: &str,
    open: &OpenModel,
    snapshot: &Snapshot,
) -> RunResult<(PathBuf, u64)> {
    let partial = partial_folder(output_dir, snapshot.step);
    let path = checkpoint_folder(output_dir, snapshot.step);
    fs::create_dir(&partial).map_err(failed("create", &partial))?;
    write_files(&partial, open, snapshot)?;
    let manifest = Manifest::write(&partial, job_id, snapshot.step)?;
    rename(&partial, &path).map_err(failed("rename", &partial))?;
    output::sync_folder(output_dir)?;
    if partial.exists() {
        fs::remove_dir_all(&partial).map_err(failed("remove", &partial))?;
    }
    Ok((path, manifest.bytes()))
}

fn write_files(folder: &Path, open: &OpenModel, snapshot: &Snapshot) -> RunResult<()> {
    open.save_weights(folder, &snapshot.parameters)?;
    output::copy_tokenizer(&open.folder, folder)?;
    write_json(&folder.join(TRAINER_STATE), &snapshot.trainer)?;
    let Some(Resumption { slots, training }) = &snapshot.resumption else { return Ok(()) };
    let slots = slots.iter().map(|(name, array)| (name.as_str(), array));
    weights::save_tensors(&folder.join(OPTIMIZER), slots)?;
    write_json(&folder.join(TRAINING_STATE), training)
}

fn write_json(path: &Path, value: &impl Serialize) -> RunResult<()> {
    let text = serde_json::to_vec_pretty(value)
        .map_err(|error| failed("serialize", path)(error.into()))?;
    output::write_of_several(path, &text)
}

/// Renames the finished folder to `path`. A folder of that name, damaged or of an earlier start of
/// the run, is exchanged with it atomically.
fn rename(partial: &Path, path: &Path) -> std::io::Result<()> {
    if path.exists() {
        return Ok(renameat_with(CWD, partial, CWD, path, RenameFlags::EXCHANGE)?);
    }
    fs::rename(partial, path)
}
