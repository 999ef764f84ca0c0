//! `traind generator`: the process that the daemon spawns to generate texts with a job's model. It lowers its
//! priority, sets limits, and executes `traind-runner generate`.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Context;
use rustix::process::{Resource, Rlimit, nice, setrlimit};

use super::become_user::become_user;
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
        self.limit()?;
        let mut generator = Command::new(&self.runner);
        // Looked up before the sandbox, which excludes the user database.
        let entry = self.run_as.map(Account::look_up).transpose().context("look up the user")?;
        if !self.allow_root.is_empty() {
            self.fence().enter()?;
        }
        if let Some(entry) = entry {
            become_user(&entry, &mut generator)?;
        }
        let error = generator.arg("generate").exec();
        Err(error).with_context(|| format!("start {}", self.runner.display()))
    }

    fn limit(&self) -> anyhow::Result<()> {
        nice(NICENESS).context("lower the priority")?;
        let threads = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
        let cpu = self.seconds * threads;
        let limits = [(Resource::Core, Some(0)), (Resource::Cpu, Some(cpu))];
        for (resource, most) in limits.into_iter().chain([(Resource::Data, self.memory)]) {
            if most.is_some() {
                let limit = Rlimit { current: most, maximum: most };
                setrlimit(resource, limit).context("limit the generator")?;
            }
        }
        Ok(())
    }

    fn fence(&self) -> Fence {
        let mut readable = self.allow_root.clone();
        for path in &self.readable {
            // A plugin may be a link into another installation, with libraries beside it.
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            let folder = if path.is_dir() { Some(path.as_path()) } else { path.parent() };
            readable.extend(folder.map(PathBuf::from));
        }
        readable.push(self.runner.clone());
        Fence { writable: vec![self.cache_dir.clone()], readable }
    }
}
