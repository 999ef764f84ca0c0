//! `traind planner`: what the daemon spawns to plan a job. It limits itself and becomes the
//! runner's `plan`: no files written, little memory, few seconds.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, setrlimit};

use super::exit::Exit;
use super::launch::set;
use crate::access::account::Account;
use crate::jobs::supervisor::fence::Fence;

const LIMITS: [(Resource, u64); 4] = [
    (Resource::Core, 0),
    (Resource::Cpu, 20),
    (Resource::Data, 4 << 30),
    // Standard output is a pipe, which this does not count.
    (Resource::Fsize, 0),
];

/// Become a planner; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Planner {
    /// Folder that the planner may read; without any, it may read all
    #[arg(long)]
    allow_root: Vec<PathBuf>,
    /// Account to run as [default: the daemon's]
    #[arg(long, value_name = "UID:GID")]
    run_as: Option<Account>,
    /// The runner's program
    runner: PathBuf,
}

impl Planner {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        for (resource, most) in LIMITS {
            let limit = Rlimit { current: Some(most), maximum: Some(most) };
            setrlimit(resource, limit).context("limit the planner")?;
        }
        let mut planner = Command::new(&self.runner);
        let entry = self.run_as.map(Account::look_up).transpose().context("look the user up")?;
        if !self.allow_root.is_empty() {
            let read = self.allow_root.iter().chain([&self.runner]).cloned().collect();
            Fence { written: Vec::new(), read }.enter()?;
        }
        if let Some(entry) = entry {
            set(&mut planner, entry.environment());
            entry.assume().context("become the user")?;
        }
        let error = planner.arg("plan").exec();
        Err(error).with_context(|| format!("start {}", self.runner.display()))
    }
}
