//! The priority of processes that work for the daemon beside jobs.

use anyhow::Context;
use rustix::process::setpriority_process;

/// The lowest priority.
pub(crate) const LOWEST: i32 = 19;

/// The priority of a process, by option.
#[derive(clap::Args)]
pub(crate) struct Niceness {
    /// Keep the daemon's priority; for tests that wait for this process on a busy machine
    #[arg(long)]
    keep_priority: bool,
}

impl Niceness {
    /// Gives this process the lowest priority, so that no job on the same processor is delayed. Returns false if it
    /// keeps the daemon's.
    pub(crate) fn lower(&self) -> anyhow::Result<bool> {
        if !self.keep_priority {
            setpriority_process(None, LOWEST).context("lower the priority")?;
        }
        Ok(!self.keep_priority)
    }
}
