//! `traind preparer`: the process that the daemon spawns to prepare a waiting job. It makes sure that no job is
//! delayed or displaced, and executes `traind-runner prepare`.

use std::path::PathBuf;

use super::confined::{Confined, enter_group};
use super::exit::Exit;
use super::niceness::Niceness;

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
        self.niceness.yield_to_jobs()?;
        self.confined.execute("prepare", self.writable)
    }
}
