//! `traind launch`: what the daemon spawns for a job. It leaves the daemon's session,
//! claims the attempt and becomes the runner, under the same process id.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};

use rustix::process::{Resource, Rlimit, setrlimit};
use traind_job_file::RunSpec;

use super::exit::Exit;
use super::show::failure;
use crate::access::account::Account;
use crate::host::process::Identity;
use crate::jobs::supervisor::claim::{Claim, claim};
use crate::jobs::supervisor::fence::Fence;
use crate::jobs::supervisor::is_transient;

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
    /// Account to run as [default: the daemon's]
    #[arg(long, value_name = "UID:GID")]
    run_as: Option<Account>,
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
        let holder = match claim(&self.claim, &own) {
            Ok(holder) => holder,
            Err(error) => return told(error, "claim the attempt"),
        };
        if holder != own {
            bail!("this attempt of the job is not to run any more");
        }
        limit(self.memory).context("limit the runner")?;
        let mut runner = Command::new(&self.runner);
        // Looked up before the fence, which keeps the places where users are listed out.
        let entry = self.run_as.map(Account::look_up).transpose().context("look the user up")?;
        if !self.allow_root.is_empty() {
            self.fence()?.enter()?;
        }
        if let Some(entry) = entry {
            set(&mut runner, entry.environment());
            entry.assume().context("become the user")?;
        }
        if let Some(folder) = self.temporary() {
            if let Err(error) = std::fs::create_dir_all(&folder) {
                return told(error, "make a folder for temporary files");
            }
            runner.env("TMPDIR", folder);
        }
        let error = runner.arg(&self.run_dir).exec();
        Err(error).with_context(|| format!("start {}", self.runner.display()))
    }
}

impl Launch {
    /// `/tmp` is outside the fence, and what the daemon uses may be closed to another user.
    fn temporary(&self) -> Option<PathBuf> {
        let own = !self.allow_root.is_empty() || self.run_as.is_some();
        own.then(|| self.run_dir.join("tmp"))
    }

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

/// A disk that fails is told by the exit, since nothing may be written any more.
fn told(error: io::Error, action: &'static str) -> anyhow::Result<Exit> {
    let passes = is_transient(&error);
    let error = anyhow::Error::new(error).context(action);
    if !passes {
        return Err(error);
    }
    failure::print(&error);
    Ok(Exit::DiskFailed)
}

/// Sets those with a value and removes the others.
pub(super) fn set<const N: usize>(
    command: &mut Command,
    variables: [(&'static str, Option<OsString>); N],
) {
    for (name, value) in variables {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
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
