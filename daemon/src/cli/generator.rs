//! `traind generator`: the process that the daemon spawns to generate texts with a job's model. It lowers its
//! priority, sets limits, and executes `traind-runner generate`.

use std::path::PathBuf;

use anyhow::Context;
use rustix::process::{Resource, nice};

use super::confined::{execute, limit, processor_seconds, with_folder};
use super::exit::Exit;
use crate::access::account::Account;
use crate::jobs::supervisor::fence::Fence;

/// The lowest priority, so that jobs on the same processor are not delayed.
const NICENESS: i32 = 19;

/// Execute the generator; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Generator {
    /// Folder that jobs may use, which the generator may read [default: no restriction]
    #[arg(long)]
    allow_root: Vec<PathBuf>,
    /// Further path that the generator may read
    #[arg(long)]
    readable: Vec<PathBuf>,
    /// Folder of compiled programs
    #[arg(long)]
    cache_dir: PathBuf,
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

impl Generator {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        nice(NICENESS).context("lower the priority")?;
        let limits = [
            (Resource::Core, Some(0)),
            (Resource::Cpu, Some(processor_seconds(self.seconds))),
            (Resource::Data, self.memory),
        ];
        limit(limits).context("limit the generator")?;
        let fence = (!self.allow_root.is_empty()).then(|| self.fence());
        execute(&self.runner, "generate", self.run_as, fence)
    }

    fn fence(&self) -> Fence {
        let mut readable = self.allow_root.clone();
        readable.extend(self.readable.iter().map(|path| with_folder(path)));
        readable.push(self.runner.clone());
        Fence { writable: vec![self.cache_dir.clone()], readable }
    }
}
