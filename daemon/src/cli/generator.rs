//! `traind generator`: the process that the daemon spawns to generate texts with a job's model. It lowers its
//! priority, sets limits, and executes `traind-runner generate`.

use std::path::PathBuf;

use anyhow::Context;
use rustix::process::nice;

use super::confined::Confined;
use super::exit::Exit;

/// The lowest priority, so that jobs on the same processor are not delayed.
const NICENESS: i32 = 19;

/// Execute the generator; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Generator {
    /// Folder of compiled programs
    #[arg(long)]
    cache_dir: PathBuf,
    #[command(flatten)]
    confined: Confined,
}

impl Generator {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        nice(NICENESS).context("lower the priority")?;
        self.confined.execute("generate", vec![self.cache_dir])
    }
}
