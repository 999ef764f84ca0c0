//! Writes one checkpoint into a temporary folder: every file synced, then the manifest with the names
//! of all. The folder is renamed last, and its parent synced.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::Serialize;
use traind_models::{Error as ModelError, weights};

use super::list::{self, partial_folder};
use super::manifest::{FileEntry, Manifest};
use super::shares;
use super::snapshot::{Resumption, Snapshot};
use super::training_state::{OPTIMIZER, TRAINER_STATE, TRAINING_STATE};
use crate::error::RunResult;
use crate::hosts::Hosts;
use crate::model::{OpenModel, SavedParameters};
use crate::output::{self, TrainerState, checkpoint_folder, failed};

/// A checkpoint that is written.
pub(super) struct Written {
    pub path: PathBuf,
    /// The bytes of its files.
    pub bytes: u64,
    /// Folders that were in its place and that traind did not write, under new names.
    pub aside: Vec<PathBuf>,
}

/// Writes a checkpoint. `hosts` write it together, where they hold different parts of the state.
pub(super) fn write(
    output_dir: &Path,
    job_id: &str,
    open: &OpenModel,
    snapshot: Snapshot,
    hosts: Option<&Hosts>,
) -> RunResult<Written> {
    let step = snapshot.step;
    let partial = partial_folder(output_dir, step);
    let path = checkpoint_folder(output_dir, step);
    let aside = list::record(output_dir, step)?;
    fs::create_dir(&partial).map_err(failed("create", &partial))?;
    let known = match hosts {
        Some(hosts) => write_with(hosts, &partial, open, snapshot)?,
        None => {
            write_alone(&partial, open, snapshot)?;
            Vec::new()
        }
    };
    let manifest = Manifest::write(&partial, job_id, step, &known)?;
    rename(&partial, &path).map_err(failed("rename", &partial))?;
    output::sync_folder(output_dir)?;
    list::remove(&partial)?;
    hosts.map_or(Ok(()), shares::complete)?;
    Ok(Written { path, bytes: manifest.bytes(), aside })
}

/// Writes all files of a state that this host holds.
fn write_alone(folder: &Path, open: &OpenModel, snapshot: Snapshot) -> RunResult<()> {
    let Snapshot { parameters, resumption, trainer, .. } = snapshot;
    write_model(folder, open, &SavedParameters::of_parts(parameters)?, &trainer)?;
    let Some(Resumption { slots, training }) = resumption else { return Ok(()) };
    let arrays = slots.into_iter().map(|(name, part)| Ok((name, part.into_array()?)));
    let arrays = arrays.collect::<Result<Vec<_>, ModelError>>()?;
    let named = arrays.iter().map(|(name, array)| (name.as_str(), array));
    weights::save_tensors(&folder.join(format!("{OPTIMIZER}.safetensors")), named)?;
    write_json(&folder.join(TRAINING_STATE), &training)
}

/// Writes the files of a state with the other hosts; returns those that hosts wrote.
fn write_with(
    hosts: &Hosts,
    folder: &Path,
    open: &OpenModel,
    snapshot: Snapshot,
) -> RunResult<Vec<FileEntry>> {
    let Some((files, parameters)) = shares::write(hosts, folder, snapshot.share())? else {
        return Ok(Vec::new());
    };
    write_model(folder, open, &parameters, &snapshot.trainer)?;
    shares::remove_parameters(hosts, folder)?;
    if let Some(Resumption { training, .. }) = &snapshot.resumption {
        write_json(&folder.join(TRAINING_STATE), training)?;
    }
    Ok(files)
}

fn write_model(
    folder: &Path,
    open: &OpenModel,
    parameters: &SavedParameters,
    trainer: &TrainerState,
) -> RunResult<()> {
    open.save_weights(folder, parameters)?;
    output::copy_tokenizer(&open.folder, folder)?;
    output::write_chat_template(folder, open.task.chat_template()?)?;
    write_json(&folder.join(TRAINER_STATE), trainer)
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
