//! The checkpoint from which all hosts resume: the one that the first host finds. Hosts that do not see its folder
//! fetch it from the bucket.

use std::fs;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::list;
use super::resume::{CheckpointSource, Resumed, find_alone, open_found};
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;
use crate::output::{MANIFEST, checkpoint_folder};
use crate::remote::Remote;

/// The channels on which the first host announces the checkpoint to resume from, and that of the best model.
const FOUND: &str = "checkpoint";
const BEST: &str = "best-checkpoint";

/// The checkpoint of the first host, as it announces it to the others.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    path: PathBuf,
    step: u64,
    is_own: bool,
    /// The manifest, which has the checksums of all files.
    manifest: Vec<u8>,
}

/// Returns the checkpoint to resume from, if any.
pub(crate) fn find(source: &CheckpointSource<'_>, hosts: &Hosts) -> RunResult<Option<Resumed>> {
    if hosts.is_first() {
        let found = find_alone(source)?;
        announce(hosts, found.as_ref())?;
        return Ok(found);
    }
    let Some(found) = announced(hosts)? else { return Ok(None) };
    let in_own_folder = checkpoint_folder(source.spec.job.checkpoints(), found.step);
    let mut folders = [&found.path, &in_own_folder].into_iter();
    if let Some(folder) = folders.find(|folder| manifest_of(folder) == found.manifest) {
        return open_found(folder, found.is_own).map(Some);
    }
    if !source.is_in_bucket() {
        return open_found(&found.path, found.is_own).map(Some);
    }
    let fetched = source.fetch_found(found.step, found.is_own)?;
    let is_same = |fetched: &Resumed| manifest_of(&fetched.path) == found.manifest;
    match fetched.filter(is_same) {
        Some(fetched) => Ok(Some(fetched)),
        None => {
            let what = "the checkpoint in the bucket";
            Err(RunError::HostsDiffer { what, hosts: vec![hosts.rank()] })
        }
    }
}

/// Makes sure that each host has the checkpoint of a step which the first host has in `folder`.
pub(crate) fn provide(hosts: &Hosts, remote: &Remote, folder: &Path, step: u64) -> RunResult<()> {
    let manifest = hosts.broadcast(BEST, manifest_of(folder))?;
    if remote.checkpoints.is_none() || manifest_of(folder) == manifest {
        return Ok(());
    }
    // An earlier run may have left another one.
    list::remove(folder)?;
    remote.fetch_checkpoint(step, folder)
}

/// The manifest in a folder; empty where there is none.
fn manifest_of(folder: &Path) -> Vec<u8> {
    fs::read(folder.join(MANIFEST)).unwrap_or_default()
}

fn announce(hosts: &Hosts, found: Option<&Resumed>) -> RunResult<()> {
    let found = found.map(|resumed| Found {
        path: resumed.path.clone(),
        step: resumed.step(),
        is_own: resumed.is_own,
        manifest: manifest_of(&resumed.path),
    });
    let text = serde_json::to_vec(&found).map_err(unreadable)?;
    hosts.broadcast(FOUND, text).map(drop)
}

fn announced(hosts: &Hosts) -> RunResult<Option<Found>> {
    serde_json::from_slice(&hosts.broadcast(FOUND, Vec::new())?).map_err(unreadable)
}

fn unreadable(error: serde_json::Error) -> RunError {
    RunError::Panicked(format!("exchange the checkpoint: {error}"))
}
