//! `traind preparer`: the process that the daemon spawns to prepare a waiting job. It makes sure that no job is
//! delayed or displaced, and executes `traind-runner prepare`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rustix::process::{nice, setsid};

use super::confined::{Confined, enter_group};
use super::exit::Exit;

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
    /// Folder that the preparation may write
    #[arg(long)]
    writable: Vec<PathBuf>,
    #[command(flatten)]
    confined: Confined,
}

impl Preparer {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        enter_group(self.cgroup.as_deref())?;
        yield_to_jobs()?;
        self.confined.execute("prepare", self.writable)
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
