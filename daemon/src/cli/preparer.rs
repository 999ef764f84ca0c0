//! `traind preparer`: the process that the daemon spawns to prepare a waiting job. It makes sure that no job is
//! delayed or displaced, and executes `traind-runner prepare`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rustix::process::{Resource, nice, setsid};

use super::confined::{enter_group, execute, limit, processor_seconds, with_folder};
use super::exit::Exit;
use crate::access::account::Account;
use crate::jobs::supervisor::fence::Fence;

/// The lowest priority.
const NICENESS: i32 = 19;
/// The kernel kills this process before any other when memory runs out.
const OUT_OF_MEMORY_SCORE: &str = "1000";

/// Execute a preparation; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Preparer {
    /// Control group to enter
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Memory limit, in bytes
    #[arg(long)]
    memory: Option<u64>,
    /// Folder that jobs may use, which the preparation may read [default: no restriction]
    #[arg(long)]
    allow_root: Vec<PathBuf>,
    /// Further path that the preparation may read
    #[arg(long)]
    readable: Vec<PathBuf>,
    /// Folder that the preparation may write
    #[arg(long)]
    writable: Vec<PathBuf>,
    /// Account to run as [default: the daemon's]
    #[arg(long, value_name = "UID:GID")]
    run_as: Option<Account>,
    /// Seconds on each processor
    #[arg(long)]
    seconds: u64,
    /// The runner's program
    runner: PathBuf,
}

impl Preparer {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        enter_group(self.cgroup.as_deref())?;
        yield_to_jobs()?;
        let limits = [
            (Resource::Core, Some(0)),
            (Resource::Cpu, Some(processor_seconds(self.seconds))),
            (Resource::Data, self.memory),
        ];
        limit(limits).context("limit the preparation")?;
        let fence = (!self.allow_root.is_empty()).then(|| self.fence());
        execute(&self.runner, "prepare", self.run_as, fence)
    }

    fn fence(&self) -> Fence {
        let readable = self.readable.iter().map(|path| with_folder(path));
        let readable = self.allow_root.iter().cloned().chain(readable);
        let readable = readable.chain([self.runner.clone()]).collect();
        Fence { writable: self.writable.clone(), readable }
    }
}

/// Gives up processor time and memory to any other process that wants them.
fn yield_to_jobs() -> anyhow::Result<()> {
    setsid().context("open a session")?;
    nice(NICENESS).context("lower the priority")?;
    // Where the kernel groups processes by session, the priority inside a session means nothing to
    // others. Not all kernels have the files.
    let _ = fs::write("/proc/self/autogroup", NICENESS.to_string());
    let _ = fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE);
    Ok(())
}
