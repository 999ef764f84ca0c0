//! Hands a job over to its cluster, or finds the job that an earlier daemon handed over.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::sync::Arc;

use traind_job_file::RunSpec;

use super::super::Supervisor;
use super::super::claim::{self, Claim};
use super::super::cluster_run::ClusterRun;
use super::super::environment::cluster_environment;
use super::super::runner::Runner;
use super::{Found, LaunchError, prepare, restored};
use crate::jobs::cluster::{Cluster, ClusterError, ClusterJob, Submission};
use crate::jobs::restored::Restored;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::{Job, Store};
use crate::settings::Settings;

/// Submits the attempt of `spec`, and claims it with the id that the cluster assigns.
pub(super) async fn launch(
    supervisor: &Supervisor,
    cluster: Cluster,
    job: &mut Job,
) -> Result<Found, LaunchError> {
    let run_dir = RunDir::new(&supervisor.settings.state_dir, &job.id);
    if let Some(found) = restored::find(supervisor, cluster, job, &run_dir).await? {
        return Ok(found);
    }
    // What was followed has ended, and this attempt is the daemon's own.
    Restored::remove(&run_dir)
        .map_err(|source| LaunchError::RunDir { path: run_dir.path().to_owned(), source })?;
    let (settings, id) = (supervisor.settings.clone(), job.id.clone());
    let prepared = supervisor.store.run(move |store| prepare(store, &settings, &id)).await?;
    let Some(prepared) = prepared else { return Ok(Found::Unclaimed) };
    job.log_offset = prepared.log_offset;
    remove_void(cluster, job, &prepared.spec, &run_dir).await?;
    let fenced = fenced_hosts(supervisor, job).await?;
    let avoided: BTreeSet<String> = job.avoided_hosts().into_iter().chain(fenced.clone()).collect();
    let avoided: Vec<String> = avoided.into_iter().collect();
    let (settings, spec) = (&supervisor.settings, &prepared.spec);
    let submitted = submit(settings, cluster, job, spec, &run_dir, &avoided).await;
    let submitted = match submitted {
        Ok(submitted) => submitted,
        Err(error) => match find_after(&error, cluster, job, &prepared.spec).await {
            Some(submitted) => submitted,
            None => {
                give_up(&run_dir, job.attempt);
                return Err(match fenced.is_empty() || !error.lacks_hosts() {
                    true => error.into(),
                    false => LaunchError::Fenced { hosts: fenced.join(", "), source: error },
                });
            }
        },
    };
    tracing::info!(job = job.id, %submitted, "submitted");
    record(supervisor, &run_dir, job, submitted.clone()).await?;
    Ok(Found::Alive(Runner::Cluster(Box::new(ClusterRun::new(submitted, job.run_as)))))
}

/// The fenced hosts of the job's cluster.
async fn fenced_hosts(supervisor: &Supervisor, job: &Job) -> Result<Vec<String>, LaunchError> {
    let fences = supervisor.store.run(Store::host_fences).await?;
    let fenced = fences.into_iter().filter(|fence| fence.engine == job.engine);
    Ok(fenced.map(|fence| fence.host).collect())
}

async fn submit(
    settings: &Arc<Settings>,
    cluster: Cluster,
    job: &Job,
    spec: &RunSpec,
    run_dir: &RunDir,
    avoided: &[String],
) -> Result<ClusterJob, ClusterError> {
    let submission = Submission {
        spec,
        runner: &settings.runner,
        run_dir: run_dir.path(),
        log: run_dir.runner_log(),
        environment: cluster_environment(std::env::vars_os(), spec),
        account: job.run_as,
        avoided,
    };
    cluster.submit(&submission).await
}

/// Finds the job of a submission that failed in between, as by a lost connection: it may have arrived.
async fn find_after(
    error: &ClusterError,
    cluster: Cluster,
    job: &Job,
    spec: &RunSpec,
) -> Option<ClusterJob> {
    if !error.is_transient() {
        return None;
    }
    cluster.find(spec, job.run_as).await.ok().flatten()
}

/// Removes the job of an attempt that was given up, in case that it arrived all the same.
async fn remove_void(
    cluster: Cluster,
    job: &Job,
    spec: &RunSpec,
    run_dir: &RunDir,
) -> Result<(), ClusterError> {
    let attempt = job.attempt.saturating_sub(1);
    if !run_dir.path().join(Submission::void_file(attempt)).exists() {
        return Ok(());
    }
    let before = RunSpec { attempt, ..spec.clone() };
    match cluster.find(&before, job.run_as).await? {
        Some(arrived) => {
            tracing::warn!(job = job.id, %arrived, "remove a job whose submission had seemed to fail");
            arrived.remove(job.run_as).await
        }
        None => Ok(()),
    }
}

/// Claims the attempt for a job in the cluster, and stores its id.
async fn record(
    supervisor: &Supervisor,
    run_dir: &RunDir,
    job: &Job,
    submitted: ClusterJob,
) -> Result<(), LaunchError> {
    let (path, id) = (run_dir.claim(job.attempt), job.id.clone());
    let folder = run_dir.path().to_owned();
    let recorded = supervisor.store.run(move |store| {
        let claimed = claim::claim(&path, &Claim::Cluster(submitted.clone()));
        claimed.map_err(|source| LaunchError::RunDir { path: folder, source })?;
        store.submitted(&id, &submitted).map_err(LaunchError::from)
    });
    recorded.await.map(drop)
}

/// Finds the job of an attempt that was active when an earlier daemon ended.
pub(super) async fn attach(
    supervisor: &Supervisor,
    cluster: Cluster,
    job: &mut Job,
) -> Result<Found, LaunchError> {
    let run_dir = RunDir::new(&supervisor.settings.state_dir, &job.id);
    if let Some(found) = restored::find(supervisor, cluster, job, &run_dir).await? {
        return Ok(found);
    }
    let found = |job: ClusterJob, account| {
        Found::Alive(Runner::Cluster(Box::new(ClusterRun::new(job, account))))
    };
    match claim::read(&run_dir.claim(job.attempt)) {
        Ok(Claim::Cluster(submitted)) => return Ok(found(submitted, job.run_as)),
        Ok(Claim::Void | Claim::Runner(_) | Claim::Adopted) => return Ok(Found::Unclaimed),
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(source) => {
            return Err(LaunchError::RunDir { path: run_dir.path().to_owned(), source });
        }
    }
    // The daemon ended between the submission and the claim, or before both.
    let Ok(spec) = RunSpec::read(run_dir.path()) else { return Ok(Found::Unclaimed) };
    match cluster.find(&spec, job.run_as).await? {
        Some(submitted) => {
            record(supervisor, &run_dir, job, submitted.clone()).await?;
            Ok(found(submitted, job.run_as))
        }
        None => {
            give_up(&run_dir, job.attempt);
            Ok(Found::Unclaimed)
        }
    }
}

/// Keeps a job whose submission seemed to fail, or comes late, from running.
fn give_up(run_dir: &RunDir, attempt: u32) {
    let path = run_dir.path().join(Submission::void_file(attempt));
    if let Err(error) = std::fs::write(&path, "") {
        tracing::warn!(path = %path.display(), %error, "mark an attempt as given up");
    }
}
