//! Processes that work for the daemon beside jobs, and delay and displace none.

use std::fs;

use anyhow::Context;
use rustix::process::{setpriority_process, setsid};

/// The lowest priority.
const LOWEST: i32 = 19;
/// The kernel kills such a process before any other when memory runs out.
const OUT_OF_MEMORY_SCORE: &str = "1000";

/// The priority of a process, by option.
#[derive(clap::Args)]
pub(crate) struct Niceness {
    /// Keep the daemon's priority; for tests that wait for this process on a busy machine
    #[arg(long)]
    keep_priority: bool,
}

impl Niceness {
    /// Gives up processor time and memory to any other process that wants them.
    pub(crate) fn yield_to_jobs(&self) -> anyhow::Result<()> {
        setsid().context("open a session")?;
        // Not all kernels have the files.
        if !self.keep_priority {
            setpriority_process(None, LOWEST).context("lower the priority")?;
            // Where the kernel groups processes by session, the priority inside a session means nothing to others.
            let _ = fs::write("/proc/self/autogroup", LOWEST.to_string());
        }
        let _ = fs::write("/proc/self/oom_score_adj", OUT_OF_MEMORY_SCORE);
        Ok(())
    }
}
