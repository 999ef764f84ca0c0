//! `traind launch`: what the daemon spawns for a job. It leaves the daemon's session,
//! claims the attempt and becomes the runner, under the same process id.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use rustix::process::{Resource, Rlimit, setrlimit};
use traind_job_file::RunSpec;

use super::exit::Exit;
use crate::supervisor::claim::{Claim, Identity, claim};
use crate::supervisor::fence::Fence;

/// Become the runner of an attempt; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Launch {
    /// Control group to enter
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Most memory of the runner, in bytes
    #[arg(long)]
    memory: Option<u64>,
    /// Folder that the runner may use; without any, it may use all
    #[arg(long)]
    allow_root: Vec<PathBuf>,
    /// File that names who runs the attempt
    claim: PathBuf,
    /// The runner's program
    runner: PathBuf,
    /// The job's run folder
    run_dir: PathBuf,
}

impl Launch {
    pub(crate) fn run(self) -> anyhow::Result<Exit> {
        rustix::process::setsid().context("open a session")?;
        if let Some(cgroup) = &self.cgroup {
            // "0" stands for the writer. Before the claim: who runs the job is inside.
            std::fs::write(cgroup.join("cgroup.procs"), "0").context("enter the control group")?;
        }
        let own = Claim::Runner(Identity::own().context("identify this process")?);
        let holder = claim(&self.claim, &own).context("claim the attempt")?;
        if holder != own {
            bail!("this attempt of the job is not to run any more");
        }
        limit(self.memory).context("limit the runner")?;
        let mut runner = Command::new(&self.runner);
        if !self.allow_root.is_empty() {
            let temporary = self.run_dir.join("tmp");
            std::fs::create_dir_all(&temporary).context("make a folder for temporary files")?;
            runner.env("TMPDIR", temporary);
            self.fence()?.enter()?;
        }
        let error = runner.arg(&self.run_dir).exec();
        Err(error).with_context(|| format!("start {}", self.runner.display()))
    }
}

impl Launch {
    fn fence(&self) -> anyhow::Result<Fence> {
        let spec = RunSpec::read(&self.run_dir).context("read what to run")?;
        let mut written = self.allow_root.clone();
        written.extend([self.run_dir.clone(), spec.cache_dir]);
        // A plugin may be a link into an installation of its own, with libraries beside it.
        let plugin = spec.plugin.canonicalize().unwrap_or(spec.plugin);
        let libraries = plugin.parent().map(PathBuf::from);
        let read = libraries.into_iter().chain([self.runner.clone()]).collect();
        Ok(Fence { written, read })
    }
}

/// A runner that dies leaves no image of users' data behind, and one that grows without
/// end fails alone.
fn limit(memory: Option<u64>) -> rustix::io::Result<()> {
    let none = Rlimit { current: Some(0), maximum: Some(0) };
    setrlimit(Resource::Core, none)?;
    match memory {
        Some(_) => setrlimit(Resource::Data, Rlimit { current: memory, maximum: memory }),
        None => Ok(()),
    }
}
