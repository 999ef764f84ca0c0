//! The checkpoint from which all hosts resume: the one that the first host finds.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use traind_job_file::{DataFiles, ResumeFrom};

use super::resume::{CheckpointSource, Resumed, find_alone, open_found};
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;

/// The channel on which the first host announces the checkpoint.
const FOUND: &str = "checkpoint";

/// The checkpoint of the first host, as the others learn of it.
#[derive(Debug, Serialize, Deserialize)]
struct Found {
    path: PathBuf,
    step: u64,
    is_own: bool,
}

/// Returns the checkpoint to resume from, if any. Hosts without a common folder fetch it from the bucket.
pub(crate) fn find(source: &CheckpointSource<'_>, hosts: &Hosts) -> RunResult<Option<Resumed>> {
    if hosts.is_first() {
        let found = find_alone(source)?;
        announce(hosts, found.as_ref())?;
        return Ok(found);
    }
    let Some(found) = announced(hosts)? else { return Ok(None) };
    if !is_in_bucket(source) {
        return open_found(&found.path, found.is_own).map(Some);
    }
    let own = find_alone(source)?;
    if own.as_ref().map(Resumed::step) != Some(found.step) {
        let what = "the newest checkpoint of the bucket";
        return Err(RunError::HostsDiffer { what, hosts: vec![hosts.rank()] });
    }
    Ok(own)
}

fn announce(hosts: &Hosts, found: Option<&Resumed>) -> RunResult<()> {
    let found = found.map(|resumed| Found {
        path: resumed.path.clone(),
        step: resumed.step(),
        is_own: resumed.is_own,
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

/// Whether the checkpoint was fetched into a folder of the first host alone.
fn is_in_bucket(source: &CheckpointSource<'_>) -> bool {
    let named = match &source.spec.job.train.resume_from_checkpoint {
        Some(ResumeFrom::Folder(folder)) => DataFiles::is_object(folder),
        _ => false,
    };
    named || source.remote.checkpoints.is_some()
}
