//! Starts the runner of a job that was just placed, or finds the one that an earlier daemon started.

mod cluster;
mod restored;

use std::error::Error as _;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};

use traind_job_file::{JobFile, RunSpec, RunSpecError};
use traind_proto::{reasons, v1};

use super::Supervisor;
use super::adopted_run::AdoptedRun;
use super::claim::{self, Claim};
use super::host_retry;
use super::process::RunnerProcess;
use super::runner::Runner;
use super::tree::Tree;
use crate::access::account::{self, Account, user_name};
use crate::host::Host;
use crate::host::plugins::{self, PluginError};
use crate::jobs::cluster::ClusterError;
use crate::jobs::record::{self, Placement};
use crate::jobs::run_dir::RunDir;
use crate::jobs::state::JobState;
use crate::jobs::store::{Job, Store, StoreError};
use crate::settings::Settings;
pub(super) use restored::RESTORED;

/// The fate of a runner.
pub(super) enum Found {
    Alive(Runner),
    Gone {
        /// The machine restarted since the runner started.
        rebooted: bool,
    },
    /// No runner exists, and none can start for this attempt.
    Unclaimed,
}

/// Why no runner could be started.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LaunchError {
    #[error("read the job: {0}")]
    Store(#[from] StoreError),
    #[error("read the resolved job file: {0}")]
    Resolved(#[from] serde_json::Error),
    #[error(transparent)]
    Plugin(#[from] PluginError),
    #[error("the {platform} plugin is no longer installed: {instructions}")]
    PluginGone { platform: String, instructions: String },
    #[error("prepare the run folder {path}: {source}", path = .path.display())]
    RunDir { path: PathBuf, source: io::Error },
    #[error("prepare the cache folder {path}: {source}", path = .path.display())]
    CacheDir { path: PathBuf, source: io::Error },
    #[error(
        "the job runs as {user}, and this daemon may not switch users: start it with the privileges that it had before"
    )]
    MayNotSwitch { user: String },
    #[error("{0}: {cause}", cause = .0.source().map(ToString::to_string).unwrap_or_default())]
    Spec(#[from] RunSpecError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    /// The cluster has no hosts for the job besides fenced ones, which an admin may return.
    #[error("{source}; fenced: {hosts}")]
    Fenced { hosts: String, source: ClusterError },
    #[error("start {runner}: {source}", runner = .runner.display())]
    Spawn { runner: PathBuf, source: io::Error },
}

impl LaunchError {
    /// Whether the host is at fault, so that the same launch may succeed later: its disk fails, a plugin or
    /// program is being replaced, or the daemon lacks privileges. All but a fault of the job's own folder or
    /// of its settings, which would only repeat.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            LaunchError::Store(_)
            | LaunchError::PluginGone { .. }
            | LaunchError::MayNotSwitch { .. }
            | LaunchError::Fenced { .. }
            | LaunchError::Cluster(ClusterError::Missing { .. }) => true,
            LaunchError::Cluster(error) => error.is_transient(),
            LaunchError::RunDir { source, .. }
            | LaunchError::CacheDir { source, .. }
            | LaunchError::Spawn { source, .. }
            | LaunchError::Spec(RunSpecError::Io { source, .. }) => host_retry::is_of_host(source),
            LaunchError::Resolved(_)
            | LaunchError::Plugin(_)
            | LaunchError::Spec(RunSpecError::Json { .. }) => false,
        }
    }

    pub(super) fn failure(&self) -> v1::Failure {
        let reason = match self {
            LaunchError::Plugin(_) | LaunchError::PluginGone { .. } => reasons::PLUGIN_NOT_FOUND,
            LaunchError::RunDir { .. } | LaunchError::CacheDir { .. } | LaunchError::Spec(_) => {
                reasons::RUN_DIRECTORY_FAILED
            }
            LaunchError::Store(_) => reasons::STORE_FAILED,
            LaunchError::Resolved(_) => reasons::INTERNAL,
            LaunchError::Cluster(ClusterError::Missing { .. }) => reasons::ENGINE_UNAVAILABLE,
            LaunchError::Cluster(_) | LaunchError::Fenced { .. } => reasons::SUBMISSION_REFUSED,
            LaunchError::Spawn { .. } | LaunchError::MayNotSwitch { .. } => {
                reasons::RUNNER_START_FAILED
            }
        };
        let (reason, message) = (reason.to_owned(), self.to_string());
        v1::Failure { reason, message, ..Default::default() }
    }
}

/// Starts a runner for `job`, which holds its cores. Starts none if the job was cancelled or the
/// daemon began to drain since the job was placed.
pub(super) async fn launch(supervisor: &Supervisor, job: &mut Job) -> Result<Found, LaunchError> {
    if supervisor.draining.is_cancelled() {
        return Ok(Found::Unclaimed);
    }
    if let Some(cluster) = job.cluster_kind() {
        return cluster::launch(supervisor, cluster, job).await;
    }
    let (settings, id) = (supervisor.settings.clone(), job.id.clone());
    let (found, log_offset) = supervisor
        .store
        .run(move |store| match prepare(store, &settings, &id)? {
            Some(prepared) => spawn(&settings, prepared),
            None => Ok((Found::Unclaimed, store.get(&id)?.log_offset)),
        })
        .await?;
    job.log_offset = log_offset;
    Ok(found)
}

/// An attempt whose run folder is complete.
pub(super) struct Prepared {
    pub spec: RunSpec,
    /// The offset in the event log at which the attempt starts.
    pub log_offset: u64,
    account: Option<Account>,
}

/// Prepares folders and `run.json` of an attempt; `None` if the job was cancelled.
pub(super) fn prepare(
    store: &Store,
    settings: &Settings,
    id: &str,
) -> Result<Option<Prepared>, LaunchError> {
    let job = store.get(id)?;
    if job.state != JobState::Starting {
        return Ok(None);
    }
    let resolved: JobFile = serde_json::from_str(&job.resolved)?;
    // A cluster chooses the cores; runners count those that they see.
    let cores = match job.cluster_kind() {
        Some(_) => (0..resolved.resources.cores).collect(),
        None => job.cores.clone(),
    };
    let spec = RunSpec {
        job_id: job.id.clone(),
        attempt: job.attempt,
        job: resolved,
        plugin: plugin_path(&job.platform, &settings.cache_dir)?,
        cache_dir: settings.cache_dir_of(job.run_as),
        cache_bytes_max: Some(settings.cache_bytes_max_of(&job.owner, job.run_as)),
        device_kind: device_kind(&settings.host, &job.cores),
        cores,
    };
    if let Some(account) = job.run_as {
        prepare_cache(account, &spec.cache_dir)?;
    }
    let run_dir = RunDir::new(&settings.state_dir, &job.id);
    let path = run_dir.path().to_owned();
    let placement = Placement { attempt: job.attempt, cores: job.cores.clone() };
    let created = run_dir.create(job.run_as).and_then(|()| record::place(&run_dir, &placement));
    created.map_err(|source| LaunchError::RunDir { path, source })?;
    let log_offset = initial_log_offset(store, &job, &run_dir)?;
    spec.write(run_dir.path())?;
    Ok(Some(Prepared { spec, log_offset, account: job.run_as }))
}

fn spawn(settings: &Settings, prepared: Prepared) -> Result<(Found, u64), LaunchError> {
    let Prepared { spec, log_offset, account } = prepared;
    let run_dir = RunDir::new(&settings.state_dir, &spec.job_id);
    let runner = settings.runner.clone();
    RunnerProcess::spawn(settings, &run_dir, &spec, account)
        .map(|process| (Found::Alive(Runner::Process(process)), log_offset))
        .map_err(|source| LaunchError::Spawn { runner, source })
}

/// The offset in the event log at which the attempt starts: 0 if the log was removed between two
/// attempts.
fn initial_log_offset(store: &Store, job: &Job, run_dir: &RunDir) -> Result<u64, StoreError> {
    if run_dir.events_log().exists() {
        return Ok(job.log_offset);
    }
    Ok(store.record(&job.id, Vec::new(), 0)?.log_offset)
}

pub(super) fn device_kind(host: &Host, cores: &[u32]) -> String {
    cores.first().map(|core| host.device(*core).to_owned()).unwrap_or_default()
}

/// Creates the cache folder of another user. Fails if the daemon may not switch to that user.
pub(super) fn prepare_cache(account: Account, cache_dir: &Path) -> Result<(), LaunchError> {
    if !account::may_switch() {
        return Err(LaunchError::MayNotSwitch { user: user_name(account.uid) });
    }
    let create = || {
        DirBuilder::new().recursive(true).create(cache_dir)?;
        if let Some(users) = cache_dir.parent() {
            fs::set_permissions(users, Permissions::from_mode(0o711))?;
        }
        fs::set_permissions(cache_dir, Permissions::from_mode(0o700))?;
        chown(cache_dir, Some(account.uid), Some(account.gid))
    };
    create().map_err(|source| LaunchError::CacheDir { path: cache_dir.to_owned(), source })
}

/// Finds the runner of a job that was active when an earlier daemon ended. After an error it is not
/// known whether the runner is alive, so the job must not be settled.
pub(super) async fn attach(supervisor: &Supervisor, job: &mut Job) -> Result<Found, LaunchError> {
    if let Some(cluster) = job.cluster_kind() {
        return cluster::attach(supervisor, cluster, job).await;
    }
    let run_dir = RunDir::new(&supervisor.settings.state_dir, &job.id);
    if job.is_adopted() {
        return Ok(Found::Alive(Runner::Adopted(AdoptedRun::new(run_dir))));
    }
    let (job, path) = (job.clone(), run_dir.path().to_owned());
    let found = tokio::task::spawn_blocking(move || find(&run_dir, &job)).await;
    let found = found.map_err(io::Error::other).and_then(|found| found);
    found.map_err(|source| LaunchError::RunDir { path, source })
}

fn find(run_dir: &RunDir, job: &Job) -> io::Result<Found> {
    // The run folder is no evidence: its user may have removed it while the runner runs.
    match claim::claim(&run_dir.claim(job.attempt), &Claim::Void) {
        // Without the folder no launcher can claim the attempt either.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Found::Unclaimed),
        Err(error) => Err(error),
        Ok(Claim::Void | Claim::Cluster(_) | Claim::Adopted) => Ok(Found::Unclaimed),
        Ok(Claim::Runner(identity)) => {
            let tree = Tree::find(run_dir, &job.id);
            let found = RunnerProcess::attach(&identity, tree)?;
            let gone = || Found::Gone { rebooted: !identity.is_of_this_boot() };
            Ok(found.map_or_else(gone, |process| Found::Alive(Runner::Process(process))))
        }
    }
}

pub(super) fn plugin_path(
    platform: &str,
    cache_dir: &std::path::Path,
) -> Result<PathBuf, LaunchError> {
    let plugin = plugins::plugin(platform)?;
    plugin.find(cache_dir).ok_or_else(|| LaunchError::PluginGone {
        platform: platform.to_owned(),
        instructions: plugin.instructions(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn io_errors(error: fn() -> io::Error) -> [LaunchError; 4] {
        let path = PathBuf::from("/p");
        [
            LaunchError::RunDir { path: path.clone(), source: error() },
            LaunchError::CacheDir { path: path.clone(), source: error() },
            LaunchError::Spawn { runner: path.clone(), source: error() },
            LaunchError::Spec(RunSpecError::Io { action: "write", path, source: error() }),
        ]
    }

    #[test]
    fn a_fault_of_the_host_is_retried_and_one_of_the_job_is_not() {
        let (platform, user) = ("cpu".to_owned(), "ann".to_owned());
        let mut of_host = vec![
            LaunchError::PluginGone { platform, instructions: String::new() },
            LaunchError::MayNotSwitch { user },
        ];
        // The program is being replaced, the folder is on a lost mount.
        of_host.extend(io_errors(|| ErrorKind::NotFound.into()));
        of_host.extend(io_errors(|| ErrorKind::PermissionDenied.into()));
        assert!(of_host.iter().all(LaunchError::is_transient), "{of_host:?}");
        let mut of_job: Vec<LaunchError> = vec![
            serde_json::from_str::<JobFile>("{").unwrap_err().into(),
            PluginError::UnknownPlatform { platform: "abacus".to_owned() }.into(),
        ];
        // A link that the user put into the folder.
        of_job.extend(io_errors(|| ErrorKind::InvalidData.into()));
        assert!(!of_job.iter().any(LaunchError::is_transient), "{of_job:?}");
    }
}
