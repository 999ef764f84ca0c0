//! Jobs that continue from a checkpoint of another job: what a fork submits, and which job a
//! checkpoint is of. Only the names of files are read, with the rights of the job's user.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use traind_job_file::{DataFiles, JobFile, ResumeFrom};
use traind_proto::v1::{self, event::Kind};

use super::admission::{Submission, check_request_id, digest};
use super::daemon::Daemon;
use super::error::Error;
use crate::access::Caller;
use crate::access::account::{Account, with_rights_of};
use crate::jobs::store::{Job, NewJob, Parent, Store, StoreError};

/// The prefix of a checkpoint's folder, before the steps done.
const CHECKPOINT_PREFIX: &str = "checkpoint-";
/// The file that a run resumes from; checkpoints of weights alone lack it.
const TRAINING_STATE: &str = "training_state.json";
/// The scheme of a bucket's URL.
const SCHEME: &str = "s3://";
const EVENTS_AT_ONCE: usize = 1000;
/// Follows the name and the output folder of the parent.
const SUFFIX: &str = "-fork";
const NAME_CHARACTERS_MAX: usize = 128;

impl Daemon {
    /// Queues a job that continues from a checkpoint of another one.
    pub(crate) async fn fork(
        self: &Arc<Daemon>,
        request: v1::ForkJobRequest,
        caller: Caller,
    ) -> Result<Job, Error> {
        let parent = self.get(&request.job_id, caller.scope()).await?;
        let daemon = self.clone();
        let create = move |_: &Store| daemon.fork_blocking(&request, &caller, &parent);
        let job = self.store.run(create).await?;
        self.get(&job.id, None).await
    }

    /// The newest checkpoint may be removed after it was chosen, when there is a newer one.
    fn fork_blocking(
        &self,
        request: &v1::ForkJobRequest,
        caller: &Caller,
        parent: &Job,
    ) -> Result<Job, Error> {
        const TRIES: usize = 8;
        let fork = || {
            let submission = submission(&self.store, request.clone(), caller.clone(), parent);
            self.create_blocking(&submission?)
        };
        let is_removed = |result: &Result<Job, Error>| match result {
            Err(Error::JobFile { violations }) if request.step == 0 => {
                violations.iter().any(|it| it.field == "train.resume_from_checkpoint")
            }
            _ => false,
        };
        let mut forked = fork();
        for _ in 1..TRIES {
            if !is_removed(&forked) {
                break;
            }
            forked = fork();
        }
        forked
    }
}

/// The submission of a fork of `parent`: its job file with the checkpoint, another name and another
/// output folder.
fn submission(
    store: &Store,
    request: v1::ForkJobRequest,
    caller: Caller,
    parent: &Job,
) -> Result<Submission, Error> {
    let Caller { user: owner, account, .. } = caller;
    let v1::ForkJobRequest { request_id, step, overrides, .. } = request;
    check_request_id(&request_id)?;
    let overrides: BTreeMap<String, String> = overrides.into_iter().collect();
    let output_dir = Path::new(&parent.output_dir);
    let resolved: JobFile = serde_json::from_str(&parent.resolved).map_err(Error::Resolved)?;
    let known = match DataFiles::is_object(resolved.checkpoints()) {
        true => uploaded_steps(store, parent)?,
        false => steps(resolved.checkpoints(), account)?,
    };
    let step = chosen_step(parent, step, known)?;
    let folder = format!("{}/{CHECKPOINT_PREFIX}{step}", resolved.checkpoints().display());
    let mut job: Value = serde_json::from_str(&parent.resolved).map_err(Error::Resolved)?;
    remove_nulls(&mut job);
    let stem: String =
        parent.name.chars().take(NAME_CHARACTERS_MAX - SUFFIX.len()).collect::<String>();
    job["name"] = format!("{stem}{SUFFIX}").into();
    job["output_dir"] = free_folder(store, output_dir)?.display().to_string().into();
    // Two jobs cannot share a folder of checkpoints.
    if let Some(keys) = job.as_object_mut() {
        keys.remove("checkpoint_dir");
    }
    job["train"]["resume_from_checkpoint"] = folder.into();
    // A command that another user named would run with the rights of the caller.
    if parent.owner != owner
        && let Some(keys) = job.as_object_mut()
    {
        keys.remove("notify");
    }
    if let Some(resources) = job.get_mut("resources").and_then(Value::as_object_mut) {
        resources.remove("after");
    }
    Ok(Submission {
        digest: digest([&format!("fork of {}", parent.id), &request.step.to_string()], &overrides),
        owner,
        account,
        request_id,
        job_file: serde_saphyr::to_string(&job).map_err(|error| Error::Fork(error.to_string()))?,
        base_dir: parent.base_dir.clone(),
        overrides,
        parent: Some(Parent { job_id: parent.id.clone(), step }),
    })
}

/// Notes the job that wrote the checkpoint that `job` resumes from, among those of the same user.
pub(super) fn find_parent(store: &Store, new: &mut NewJob, job: &JobFile) -> Result<(), Error> {
    let Some(ResumeFrom::Folder(folder)) = &job.train.resume_from_checkpoint else { return Ok(()) };
    if new.parent.is_some() {
        return Ok(());
    }
    let (output_dir, step) = match step_of(folder).zip(folder.parent()) {
        Some((step, output_dir)) => (output_dir, step),
        None => {
            let newest = steps(folder, new.run_as)?.into_iter().max();
            (folder.as_path(), newest.unwrap_or_default())
        }
    };
    let found = store.newest_with_output(&new.owner, &output_dir.display().to_string())?;
    new.parent = found.map(|job_id| Parent { job_id, step });
    Ok(())
}

/// Checks that there is a checkpoint of `step`, and returns it, or the newest for 0.
fn chosen_step(parent: &Job, step: u64, mut known: Vec<u64>) -> Result<u64, Error> {
    known.sort_unstable();
    let found = match step {
        0 => known.last().copied(),
        step => known.contains(&step).then_some(step),
    };
    let missing = || {
        let listed = known.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
        let has = match listed.is_empty() {
            true => "it has none to resume from".to_owned(),
            false => format!("it has those of steps {listed}"),
        };
        let description = format!("job {} has no checkpoint of step {step}: {has}", parent.id);
        Error::Request { field: "step", description }
    };
    found.ok_or_else(missing)
}

/// The steps of the checkpoints that a job has uploaded. Only a runner can look into a bucket, where
/// `save_total_limit` may have removed some since.
fn uploaded_steps(store: &Store, parent: &Job) -> Result<Vec<u64>, StoreError> {
    let (mut uploaded, mut from) = (Vec::new(), 1);
    loop {
        let events = store.events(parent.number, from, EVENTS_AT_ONCE)?;
        let Some(last) = events.last() else { return Ok(uploaded) };
        from = last.sequence + 1;
        uploaded.extend(events.into_iter().filter_map(|event| match event.kind {
            Some(Kind::Uploaded(it)) if it.url.starts_with(SCHEME) => step_of(Path::new(&it.url)),
            _ => None,
        }));
    }
}

/// The steps of the checkpoints in a folder that a run can resume from.
fn steps(output_dir: &Path, account: Option<Account>) -> Result<Vec<u64>, Error> {
    let list = || {
        let entries = fs::read_dir(output_dir).into_iter().flatten().flatten();
        let resumable = entries.filter(|entry| entry.path().join(TRAINING_STATE).is_file());
        resumable.filter_map(|entry| step_of(&entry.path())).collect()
    };
    with_rights_of(account, list).map_err(Error::Switch)
}

fn step_of(folder: &Path) -> Option<u64> {
    folder.file_name()?.to_str()?.strip_prefix(CHECKPOINT_PREFIX)?.parse().ok()
}

/// The first folder beside `output_dir` that neither exists nor belongs to a job.
fn free_folder(store: &Store, output_dir: &Path) -> Result<PathBuf, StoreError> {
    let mut number = 1;
    loop {
        let count = if number == 1 { String::new() } else { format!("-{number}") };
        let candidate = PathBuf::from(format!("{}{SUFFIX}{count}", output_dir.display()));
        let is_taken = store.has_output(&candidate.display().to_string())?;
        if !is_taken && !candidate.exists() {
            return Ok(candidate);
        }
        number += 1;
    }
}

/// Removes keys without a value, whose defaults are not written as null.
pub(super) fn remove_nulls(value: &mut Value) {
    match value {
        Value::Object(entries) => {
            entries.retain(|_, value| !value.is_null());
            entries.values_mut().for_each(remove_nulls);
        }
        Value::Array(values) => values.iter_mut().for_each(remove_nulls),
        _ => {}
    }
}
