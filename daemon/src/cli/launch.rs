//! `traind launch`: what the daemon spawns for a job. It leaves the daemon's session,
//! claims the attempt and becomes the runner, under the same process id.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use super::exit::Exit;
use crate::supervisor::claim::{Claim, Identity, claim};

/// Become the runner of an attempt; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Launch {
    /// Control group to enter
    #[arg(long)]
    cgroup: Option<PathBuf>,
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
        if let Some(cgroup) = self.cgroup {
            // "0" stands for the writer. Before the claim: who runs the job is inside.
            std::fs::write(cgroup.join("cgroup.procs"), "0").context("enter the control group")?;
        }
        let own = Claim::Runner(Identity::own().context("identify this process")?);
        let holder = claim(&self.claim, &own).context("claim the attempt")?;
        if holder != own {
            bail!("this attempt of the job is not to run any more");
        }
        let error = Command::new(&self.runner).arg(&self.run_dir).exec();
        Err(error).with_context(|| format!("start {}", self.runner.display()))
    }
}
