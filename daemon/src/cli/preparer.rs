//! `traind preparer`: the process that the daemon spawns to prepare a waiting job. It makes sure that no job is
//! delayed or displaced, and executes `traind-runner prepare`.

use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use rustix::process::setsid;

use super::confined::{Confined, enter_group};
use super::exit::Exit;
use super::niceness::{LOWEST, Niceness};

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
    niceness: Niceness,
    #[command(flatten)]
    confined: Confined,
}

impl Preparer {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        enter_group(self.cgroup.as_deref())?;
        yield_to_jobs(&self.niceness)?;
        self.confined.execute("prepare", self.writable)
    }
}

/// Gives up processor time and memory to any other process that wants them.
fn yield_to_jobs(niceness: &Niceness) -> anyhow::Result<()> {
    setsid().context("open a session")?;
    // Not all kernels have the files.
    if niceness.lower()? {
        // Where the kernel groups processes by session, the priority inside a session means nothing to others.
        let _ = fs::write("/proc/self/autogroup", LOWEST.to_string());
    }
    let _ = fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE);
    Ok(())
}
