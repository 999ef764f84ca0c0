//! `traind generator`: the process that the daemon spawns to generate texts with a job's model. It yields to
//! jobs, sets limits, and executes `traind-runner generate`.

use std::path::PathBuf;

use super::confined::Confined;
use super::exit::Exit;
use super::niceness::Niceness;

/// Execute the generator; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Generator {
    /// Folder of compiled programs
    #[arg(long)]
    cache_dir: PathBuf,
    #[command(flatten)]
    niceness: Niceness,
    #[command(flatten)]
    confined: Confined,
}

impl Generator {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        self.niceness.yield_to_jobs()?;
        self.confined.execute("generate", vec![self.cache_dir])
    }
}
