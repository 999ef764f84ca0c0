//! Checks before the first step that all hosts have the same job, data and model, and see the same folders.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use serde_json::json;
use traind_job_file::JobFile;
use traind_loader::TokenizedSet;

use super::Context;
use crate::checkpoint;
use crate::data::Splits;
use crate::error::{RunError, RunResult};
use crate::hosts::Hosts;
use crate::output::failed;
use crate::state::StartValues;

/// Rows of a set whose tokens are compared, besides the lengths of all.
const ROWS: usize = 1024;
/// A file that the first host writes and the others look for.
const PROBE: &str = ".traind-hosts";

/// Checks the job, and the folder of its checkpoints unless that is in a bucket.
pub(super) fn check_job(context: &Context) -> RunResult<()> {
    let hosts = &context.hosts;
    if hosts.is_alone() {
        return Ok(());
    }
    hosts.check_equal("the job file", digest_of_job(&context.spec.job))?;
    match context.remote.checkpoints {
        Some(_) => Ok(()),
        None => check_shared(hosts, context.spec.job.checkpoints(), |path, hosts| {
            let remedy = "output_dir must be a folder that all hosts see, or in a bucket";
            RunError::NotShared { path: path.to_owned(), hosts, remedy }
        }),
    }
}

/// Checks that all hosts have tokenized the same rows.
pub(super) fn check_data(hosts: &Hosts, splits: &Splits) -> RunResult<()> {
    if hosts.is_alone() {
        return Ok(());
    }
    let mut digest = blake3::Hasher::new();
    for split in [&splits.train, &splits.validation, &splits.test].into_iter().flatten() {
        digest.update(split.name.as_bytes());
        add_rows(&mut digest, &split.set)?;
    }
    hosts.check_equal("the tokenized data", digest.finalize().as_bytes().to_vec())
}

/// Checks that training starts from the same values on all hosts.
pub(super) fn check_start(hosts: &Hosts, start: &StartValues) -> RunResult<()> {
    if hosts.is_alone() {
        return Ok(());
    }
    let mut digest = blake3::Hasher::new();
    for array in start.parameters.iter().chain(start.reference.iter().flatten()) {
        digest.update(array.bytes());
    }
    hosts.check_equal("the model", digest.finalize().as_bytes().to_vec())
}

/// A digest of the job without the folders that differ where each host stages files of its own.
fn digest_of_job(job: &JobFile) -> Vec<u8> {
    let mut value = json!(job);
    if let Some(fields) = value.as_object_mut() {
        fields.remove("output_dir");
        fields.remove("checkpoint_dir");
    }
    blake3::hash(value.to_string().as_bytes()).as_bytes().to_vec()
}

fn add_rows(digest: &mut blake3::Hasher, set: &TokenizedSet) -> RunResult<()> {
    for length in set.lengths() {
        digest.update(&length.to_le_bytes());
    }
    for row in (0..set.len()).step_by(set.len().div_ceil(ROWS).max(1)) {
        for token in set.input_ids(row)? {
            digest.update(&token.to_le_bytes());
        }
    }
    Ok(())
}

/// Checks that all hosts see the folder that `checkpoints` names on the first one, in which they write together.
pub(super) fn check_common(hosts: &Hosts, checkpoints: &Path) -> RunResult<()> {
    let path = checkpoints.as_os_str().as_bytes().to_vec();
    let path = hosts.broadcast("probe-folder", path)?;
    check_shared(hosts, Path::new(OsStr::from_bytes(&path)), checkpoint::not_shared)
}

/// Checks that a file of the first host can be read on all others, and fails with `not_shared` of those on which it
/// cannot.
fn check_shared(
    hosts: &Hosts,
    folder: &Path,
    not_shared: impl FnOnce(&Path, Vec<usize>) -> RunError,
) -> RunResult<()> {
    let path = folder.join(PROBE);
    let nonce = format!("{}-{:?}", std::process::id(), std::time::SystemTime::now());
    if hosts.is_first() {
        fs::write(&path, &nonce).map_err(failed("write", &path))?;
    }
    let nonce = hosts.broadcast("probe", nonce.into_bytes())?;
    let sees = fs::read(&path).is_ok_and(|found| found == nonce);
    let seen = hosts.gather_all("probe", vec![u8::from(sees)])?;
    if hosts.is_first() {
        fs::remove_file(&path).map_err(failed("remove", &path))?;
    }
    let blind = seen.iter().enumerate().filter(|(_, sees)| sees.as_slice() != [1]);
    let hosts: Vec<usize> = blind.map(|(rank, _)| rank).collect();
    match hosts.is_empty() {
        true => Ok(()),
        false => Err(not_shared(folder, hosts)),
    }
}
