//! Limits and a sandbox, which the processes that the daemon spawns enter before they execute another program.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::become_user::become_user;
use super::exit::Exit;
use crate::access::account::Account;
use crate::jobs::supervisor::fence::Fence;

/// Options of a process that reads what jobs may use, and executes a subcommand of the runner.
#[derive(clap::Args)]
pub(super) struct Confined {
    /// Folder that jobs may use, which the process may read [default: no restriction]
    #[arg(long)]
    allow_root: Vec<PathBuf>,
    /// Further path that the process may read
    #[arg(long)]
    readable: Vec<PathBuf>,
    /// Account to run as [default: the daemon's]
    #[arg(long, value_name = "UID:GID")]
    run_as: Option<Account>,
    /// Memory limit, in bytes
    #[arg(long)]
    memory: Option<u64>,
    /// Seconds on each processor
    #[arg(long)]
    seconds: u64,
    /// The runner's program
    runner: PathBuf,
}

impl Confined {
    /// Executes `subcommand` within the limits, and where folders are restricted, in a sandbox that lets it write
    /// `writable`.
    pub(super) fn execute(self, subcommand: &str, writable: Vec<PathBuf>) -> anyhow::Result<Exit> {
        let limits = [
            (Resource::Core, Some(0)),
            (Resource::Cpu, Some(processor_seconds(self.seconds))),
            (Resource::Data, self.memory),
        ];
        limit(limits).with_context(|| format!("limit traind-runner {subcommand}"))?;
        let fence = (!self.allow_root.is_empty()).then(|| {
            let mut readable = self.allow_root;
            readable.extend(self.readable.iter().map(|path| with_folder(path)));
            readable.push(self.runner.clone());
            Fence { writable, readable }
        });
        execute(&self.runner, subcommand, self.run_as, fence)
    }
}

/// Sets the limits that have a value, for good.
pub(super) fn limit(
    limits: impl IntoIterator<Item = (Resource, Option<u64>)>,
) -> rustix::io::Result<()> {
    for (resource, most) in limits {
        if most.is_some() {
            setrlimit(resource, Rlimit { current: most, maximum: most })?;
        }
    }
    Ok(())
}

/// Enters a control group, if one is given.
pub(super) fn enter_group(cgroup: Option<&Path>) -> anyhow::Result<()> {
    let Some(cgroup) = cgroup else { return Ok(()) };
    // "0" stands for this process.
    fs::write(cgroup.join("cgroup.procs"), "0").context("enter the control group")
}

/// The folder of a library, which may be a link into another installation, with libraries beside it; a folder
/// itself.
fn with_folder(path: &Path) -> PathBuf {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    match path.parent().filter(|_| !path.is_dir()) {
        Some(folder) => folder.to_owned(),
        None => path,
    }
}

/// The processor time of so many seconds on each processor.
pub(super) fn processor_seconds(seconds: u64) -> u64 {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    seconds * threads
}

/// Executes `subcommand` of the runner, inside the sandbox and as the user that are given.
pub(super) fn execute(
    runner: &Path,
    subcommand: &str,
    account: Option<Account>,
    fence: Option<Fence>,
) -> anyhow::Result<Exit> {
    let mut program = Command::new(runner);
    // Looked up before the sandbox, which excludes the user database.
    let entry = account.map(Account::look_up).transpose().context("look up the user")?;
    if let Some(fence) = fence {
        fence.enter()?;
    }
    if let Some(entry) = entry {
        become_user(&entry, &mut program)?;
    }
    let error = program.arg(subcommand).exec();
    Err(error).with_context(|| format!("start {}", runner.display()))
}
