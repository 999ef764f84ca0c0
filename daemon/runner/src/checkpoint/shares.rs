//! Checkpoints of a state of which no host holds everything. Each host writes what it holds, in files of its own in
//! the folder that the first host has created, and reports their sizes and checksums. When all have, the first host
//! writes the model from the parts of all, one parameter at a time, and commits the manifest. The optimizer's slots
//! stay in parts.
//!
//! The threads that write checkpoints meet here, while training continues.

use std::fs;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use traind_models::weights::{ArrayParts, PartFiles, part_file, save_parts};

use super::manifest::{FileEntry, entry};
use super::training_state::OPTIMIZER;
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;
use crate::model::SavedParameters;
use crate::output::{self, failed};

/// The stem of the files with parts of the parameters.
const PARAMETERS: &str = "parameters";
/// The channels on which the first host names the folder, all report their files, and the first host reports that
/// the checkpoint is complete.
const FOLDER: &str = "checkpoint-folder";
const FILES: &str = "checkpoint-files";
const COMPLETE: &str = "checkpoint-complete";

/// The part of the state that a host holds and saves.
#[derive(Clone, Copy)]
pub(super) struct Share<'a> {
    pub parameters: &'a ArrayParts,
    pub slots: Option<&'a ArrayParts>,
}

/// Writes the share of this host. Returns on the first host, in whose `folder` all have written, the files that stay,
/// and the parameters, which are to be removed with [`remove_parameters`].
pub(super) fn write(
    hosts: &Hosts,
    folder: &Path,
    share: Share<'_>,
) -> RunResult<Option<(Vec<FileEntry>, SavedParameters)>> {
    let folder: PathBuf = decode(&hosts.broadcast(FOLDER, encode(&folder)?)?)?;
    let own = write_files(hosts, &folder, share)?;
    let Some(given) = hosts.gather(FILES, encode(&own)?)? else { return Ok(None) };
    let files = given.iter().map(|files| decode(files)).collect::<RunResult<Vec<_>>>()?;
    check_seen(&folder, &files)?;
    let parameters = PartFiles::open(&folder, PARAMETERS)?;
    let not_seen = || not_shared(&folder, vec![hosts.rank()]);
    let parameters = parameters.ok_or_else(not_seen)?;
    let is_slots = |file: &FileEntry| file.name.starts_with(OPTIMIZER);
    let kept = files.concat().into_iter().filter(is_slots).collect();
    Ok(Some((kept, SavedParameters::Parts(parameters))))
}

/// Waits until the first host has completed the checkpoint.
pub(super) fn complete(hosts: &Hosts) -> RunResult<()> {
    hosts.barrier(COMPLETE)
}

/// Removes the parts of parameters, once the model is written.
pub(super) fn remove_parameters(hosts: &Hosts, folder: &Path) -> RunResult<()> {
    for host in 0..hosts.size() {
        let path = folder.join(part_file(PARAMETERS, host, hosts.size()));
        fs::remove_file(&path).map_err(failed("remove", &path))?;
    }
    Ok(())
}

/// Writes the files of this host, durable in the folder.
fn write_files(hosts: &Hosts, folder: &Path, share: Share<'_>) -> RunResult<Vec<FileEntry>> {
    let stems = [(PARAMETERS, Some(share.parameters)), (OPTIMIZER, share.slots)];
    let mut files = Vec::new();
    for (stem, parts) in stems {
        let Some(parts) = parts else { continue };
        let name = part_file(stem, hosts.rank(), hosts.size());
        let path = folder.join(&name);
        save_parts(&path, parts)?;
        files.push(entry(folder, &name).map_err(failed("read back", &path))?);
    }
    output::sync_folder(folder)?;
    Ok(files)
}

/// Refuses files that this host does not see as their hosts wrote them.
fn check_seen(folder: &Path, files: &[Vec<FileEntry>]) -> RunResult<()> {
    let is_seen = |file: &FileEntry| {
        fs::metadata(folder.join(&file.name)).is_ok_and(|found| found.len() == file.bytes)
    };
    let unseen = files.iter().enumerate().filter(|(_, files)| !files.iter().all(is_seen));
    let hosts: Vec<usize> = unseen.map(|(rank, _)| rank).collect();
    match hosts.is_empty() {
        true => Ok(()),
        false => Err(not_shared(folder, hosts)),
    }
}

/// Some hosts do not see the folder in which all save their parts.
pub(crate) fn not_shared(folder: &Path, hosts: Vec<usize>) -> RunError {
    let remedy = "each host saves its part of the state there, so checkpoint_dir must be a folder that all hosts see";
    RunError::NotShared { path: folder.to_owned(), hosts, remedy }
}

fn encode(value: &impl Serialize) -> RunResult<Vec<u8>> {
    serde_json::to_vec(value).map_err(unreadable)
}

fn decode<T: DeserializeOwned>(text: &[u8]) -> RunResult<T> {
    serde_json::from_slice(text).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> RunError {
    RunError::Panicked(format!("exchange the files of a checkpoint: {error}"))
}
