//! Finds what a restored job has in its cluster, so that nothing runs twice: see `jobs::restored`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use traind_job_file::{JobFile, RunSpec};

use super::super::Supervisor;
use super::super::claim::{self, Claim};
use super::super::cluster_run::ClusterRun;
use super::super::runner::Runner;
use super::{Found, LaunchError};
use crate::access::account::Account;
use crate::jobs::cluster::{Cluster, ClusterJob};
use crate::jobs::restored::Restored;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{Job, Store};

/// Code of the warning that says what became of a restored job.
pub(in crate::jobs::supervisor) const RESTORED: &str = "RESTORED";

/// Looks for a restored job in its cluster. Returns `None` for all others, and if the cluster has nothing of it.
pub(super) async fn find(
    supervisor: &Supervisor,
    cluster: Cluster,
    job: &mut Job,
    run_dir: &RunDir,
) -> Result<Option<Found>, LaunchError> {
    let folder_error = |source| LaunchError::RunDir { path: run_dir.path().to_owned(), source };
    let Some(restored) = Restored::read(run_dir).map_err(folder_error)? else { return Ok(None) };
    if restored.follows.is_some() {
        return Ok(None);
    }
    let id = job.id.clone();
    let resolved = supervisor.store.run(move |store| store.get(&id)).await?.resolved;
    let resolved: JobFile = serde_json::from_str(&resolved)?;
    let newest = cluster.newest(&job.id, restored.since_attempt, &resolved, job.run_as).await?;
    let claimed = match claim::read(&run_dir.claim(job.attempt)) {
        Ok(Claim::Cluster(submitted)) => Some(submitted),
        _ => None,
    };
    let (job_before, run_dir) = (job.clone(), run_dir.clone());
    let take = move |store: &Store| -> Result<(Job, Option<Found>), LaunchError> {
        let found = match (newest, &claimed) {
            // The accounting knows for longer what became of it.
            (None, Some(claimed)) if cluster == Cluster::Slurm => Some(claimed.clone()),
            (newest, _) => newest,
        };
        let known = found.is_some();
        let (now, found) = take(store, &run_dir, &job_before, restored, found)?;
        match claimed.filter(|_| !known && found.is_none()) {
            Some(gone) => {
                let message = format!(
                    "restored from a backup: there is no {gone} any more, so that the job resumes from its newest \
                     checkpoint"
                );
                Ok((store.warn_once(&now.id, RESTORED, message)?, Some(Found::Unclaimed)))
            }
            None => Ok((now, found)),
        }
    };
    let (now, found) = supervisor.store.run(take).await?;
    *job = now;
    Ok(found)
}

/// Takes over what was found: the run folder of the daemon before, and the job in the cluster.
fn take(
    store: &Store,
    run_dir: &RunDir,
    job: &Job,
    restored: Restored,
    found: Option<ClusterJob>,
) -> Result<(Job, Option<Found>), LaunchError> {
    let folder_error = |source| LaunchError::RunDir { path: run_dir.path().to_owned(), source };
    let sees_log = sees_log(store, run_dir, job, &restored)?;
    let Some(submitted) = found else {
        Restored::remove(run_dir).map_err(folder_error)?;
        // Its log may say how it ended, where the cluster has forgotten it.
        let gone = (sees_log && has_more(run_dir, job)).then_some(Found::Gone { rebooted: true });
        return Ok((store.get(&job.id)?, gone));
    };
    let text = serde_json::to_vec(&Claim::Cluster(submitted.clone())).map_err(io::Error::from);
    // An earlier claim is that of the backup.
    text.and_then(|text| traind_durable::replace(&run_dir.claim(job.attempt), &text))
        .map_err(folder_error)?;
    store.submitted(&job.id, &submitted)?;
    let folder = restored.folder();
    let words = match sees_log {
        true => format!("and its run folder {folder}"),
        false => format!(
            "by what the cluster says of it: its run folder {folder} is not visible here, so that its events since then \
             are not known"
        ),
    };
    let message = format!("restored from a backup: the daemon follows {submitted} {words}");
    let job = store.warn_once(&job.id, RESTORED, message)?;
    let run = ClusterRun::new(submitted.clone(), job.run_as);
    let follows = Restored { follows: Some(submitted), ..restored };
    follows.write(run_dir).map_err(folder_error)?;
    Ok((job, Some(Found::Alive(Runner::Cluster(Box::new(run))))))
}

/// Makes the run folder the one to which the runners report, if this host sees that. Returns whether it does.
fn sees_log(
    store: &Store,
    run_dir: &RunDir,
    job: &Job,
    restored: &Restored,
) -> Result<bool, LaunchError> {
    let folder_error = |source| LaunchError::RunDir { path: run_dir.path().to_owned(), source };
    if let Some(linked) = run_dir.linked() {
        if linked.is_dir() {
            return Ok(true);
        }
        let anew = fs::remove_file(run_dir.path()).and_then(|()| run_dir.create(job.run_as));
        anew.map_err(folder_error)?;
        store.record(&job.id, Vec::new(), 0)?;
        return Ok(false);
    }
    let Some(target) = restored.run_dir.as_deref().filter(|it| is_run_of(it, job)) else {
        return Ok(false);
    };
    // All that is in it is from the other one, whose log continues.
    match fs::remove_dir_all(run_dir.path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(folder_error(error)),
        _ => {}
    }
    run_dir.link(target, owner(job.run_as)).map_err(folder_error)?;
    Ok(true)
}

/// Whether a folder is the run folder of this job, with a log that has all that the store knows of it.
fn is_run_of(folder: &Path, job: &Job) -> bool {
    let is_own = fs::symlink_metadata(folder)
        .is_ok_and(|found| found.is_dir() && found.uid() == owner(job.run_as));
    let length = fs::metadata(folder.join("events.log")).map_or(0, |found| found.len());
    let is_job = |folder| RunSpec::read(folder).is_ok_and(|spec| spec.job_id == job.id);
    is_own && length >= job.log_offset && is_job(folder)
}

fn owner(account: Option<Account>) -> u32 {
    account.unwrap_or_else(Account::own).uid
}

/// Whether the log has more than the store knows.
fn has_more(run_dir: &RunDir, job: &Job) -> bool {
    fs::metadata(run_dir.events_log()).is_ok_and(|found| found.len() > job.log_offset)
}
