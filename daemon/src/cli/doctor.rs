//! `traind doctor`: diagnoses a daemon that refuses to start, and a host that lacks what a platform needs.

use std::path::PathBuf;

use anyhow::Context;
use traind_wording::counted;

use super::Global;
use super::exit::Exit;
use super::serve::runner_beside_this_program;
use crate::control::planner::mpi;
use crate::host::readiness::{self, Check, Finding, HostFiles};
use crate::jobs::cluster::{kubernetes_checks, slurm_checks};
use crate::jobs::doctor::{self, Downgrade, StoppedState};
use crate::paths;

/// The variable by which scripts show the doctor a host that is not there.
const HOST_ROOT: &str = "TRAIND_HOST_ROOT";

/// Check, rebuild or downgrade the job store of a stopped daemon, or check that the host is ready for a platform
#[derive(clap::Args)]
pub(crate) struct Doctor {
    /// Check that this host has what a platform needs (cpu, cuda or neuron), without a daemon
    #[arg(long, value_name = "PLATFORM", conflicts_with_all = ["state_dir", "rebuild", "downgrade"])]
    platform: Option<String>,
    /// Folder with files of another host, such as the twin's of AWS Neuron, which hide those of this one
    #[arg(long, value_name = "DIR", env = HOST_ROOT, hide = true)]
    host_root: Option<PathBuf>,
    /// Folder of the plugins [default: $TRAIND_CACHE_DIR or ~/.cache/traind]
    #[arg(long, value_name = "DIR", requires = "platform")]
    cache_dir: Option<PathBuf>,
    /// Check that this host can submit jobs to a cluster, or exchange data by MPI, without a daemon
    #[arg(
        long,
        value_name = "ENGINE",
        conflicts_with_all = ["state_dir", "rebuild", "downgrade", "platform"]
    )]
    engine: Option<CheckedEngine>,
    /// The namespace of the jobs, with `--engine kubernetes`
    #[arg(long, value_name = "NAME", default_value = "default", requires = "engine")]
    namespace: String,
    /// The daemon's state folder
    /// [default: $TRAIND_STATE_DIR, systemd's state folder, or ~/.local/state/traind]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    /// Rebuild the store and keep the old one beside it. Tokens must be created again
    #[arg(long, conflicts_with = "downgrade")]
    rebuild: bool,
    /// Take the store back to an earlier version, by default the previous one, for the `traind` that had it, and
    /// keep the present one beside it
    #[arg(long, value_name = "VERSION", num_args = 0..=1, require_equals = true)]
    downgrade: Option<Option<usize>>,
}

/// Programs that place jobs on several hosts, or exchange their data.
#[derive(Clone, Copy, clap::ValueEnum)]
enum CheckedEngine {
    Slurm,
    Kubernetes,
    Mpi,
}

impl CheckedEngine {
    async fn checks(self, namespace: &str) -> anyhow::Result<Vec<Check>> {
        Ok(match self {
            CheckedEngine::Slurm => slurm_checks().await,
            CheckedEngine::Kubernetes => kubernetes_checks(namespace).await,
            CheckedEngine::Mpi => {
                let cache_dir = paths::cache_dir().context("no cache folder: HOME is not set")?;
                mpi::checks(&runner_beside_this_program()?, &cache_dir)
            }
        })
    }
}

impl Doctor {
    pub(crate) async fn run(self, _: Global) -> anyhow::Result<Exit> {
        if let Some(platform) = &self.platform {
            return check_host(platform, self.cache_dir, self.host_root);
        }
        if let Some(engine) = self.engine {
            return Ok(print(&engine.checks(&self.namespace).await?));
        }
        let state_dir = self.state_dir.or_else(paths::state_dir);
        let state_dir = state_dir.context("no state folder: HOME is not set; set --state-dir")?;
        let state = StoppedState::lock(&state_dir)?;
        match self.downgrade {
            Some(version) => downgrade(&state, version),
            None if self.rebuild => rebuild(&state),
            None => check(&state),
        }
    }
}

fn check_host(
    platform: &str,
    cache_dir: Option<PathBuf>,
    root: Option<PathBuf>,
) -> anyhow::Result<Exit> {
    let cache_dir = cache_dir.or_else(paths::cache_dir);
    let cache_dir = cache_dir.context("no cache folder: HOME is not set; set --cache-dir")?;
    let files = match root {
        Some(root) => {
            println!("{HOST_ROOT} has files in place of this host's: {}", root.display());
            HostFiles::overlaid(root)
        }
        None => HostFiles::new("/"),
    };
    let checks = readiness::of_platform(platform, &files, &cache_dir)?;
    Ok(print(&checks))
}

fn print(checks: &[Check]) -> Exit {
    for check in checks {
        println!("{}", describe(check));
    }
    if checks.iter().any(Check::is_missing) { Exit::Failed } else { Exit::Done }
}

fn describe(Check { name, finding }: &Check) -> String {
    match finding {
        Finding::Present(found) => format!("ok       {name}: {found}"),
        Finding::Advice { found, remedy } => format!("advice   {name}: {found}\n         {remedy}"),
        Finding::Missing { found, remedy } => {
            format!("missing  {name}: {found}\n         {remedy}")
        }
    }
}

fn check(state: &StoppedState) -> anyhow::Result<Exit> {
    let problems = state.check()?;
    for problem in &problems {
        println!("{problem}");
    }
    if problems.is_empty() {
        println!("{} is sound", state.store_path().display());
        return Ok(Exit::Done);
    }
    println!("`traind doctor --rebuild` rebuilds it from the job folders");
    Ok(Exit::Failed)
}

fn rebuild(state: &StoppedState) -> anyhow::Result<Exit> {
    let rebuilt = doctor::rebuild(state)?;
    println!("restored {} in {}", counted(rebuilt.jobs, "job"), state.store_path().display());
    if let Some(kept) = &rebuilt.kept {
        println!("kept the old store as {}", kept.display());
    }
    for (id, why) in &rebuilt.lost {
        println!("job {id} could not be restored: {why}");
    }
    if !rebuilt.unreadable.is_empty() {
        let lost = rebuilt.unreadable.join(", ");
        println!("could not be read from the old store, and may be lost: {lost}");
    }
    Ok(if rebuilt.lost.is_empty() { Exit::Done } else { Exit::Failed })
}

fn downgrade(state: &StoppedState, version: Option<usize>) -> anyhow::Result<Exit> {
    let (path, done) = (state.store_path(), doctor::downgrade(state, version)?);
    let Downgrade::Done { downgraded, kept } = done else {
        let Downgrade::NotNeeded { version } = done else { return Ok(Exit::Done) };
        println!("{} has version {version} already", path.display());
        return Ok(Exit::Done);
    };
    let version = downgraded.version;
    println!("took {} back to version {version}", path.display());
    println!("kept the newer store as {}", kept.display());
    for dropped in &downgraded.dropped {
        println!(
            "left out {} (rows: {}), which version {version} does not have",
            dropped.name, dropped.rows
        );
    }
    Ok(Exit::Done)
}
