//! `traind launch`: the process that the daemon spawns for a job. It opens a new session, claims
//! the attempt and executes the runner, under the same process id.

use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, bail};
use rustix::process::Resource;
use traind_job_file::RunSpec;

use super::become_user::become_user;
use super::confined::{enter_group, limit};
use super::exit::Exit;
use super::show::failure;
use crate::access::account::Account;
use crate::host::process::Identity;
use crate::jobs::supervisor::claim::{Claim, claim};
use crate::jobs::supervisor::fence::Fence;
use crate::jobs::supervisor::is_transient;

/// Execute the runner of an attempt; for the daemon's own use.
#[derive(clap::Args)]
pub(crate) struct Launch {
    /// Control group to enter
    #[arg(long)]
    cgroup: Option<PathBuf>,
    /// Memory limit of the runner, in bytes
    #[arg(long)]
    memory: Option<u64>,
    /// Folder that the runner may use [default: no restriction]
    #[arg(long)]
    allow_root: Vec<PathBuf>,
    /// File that identifies the attempt's runner
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
        // Before the claim, so that the claimed process is in the group.
        enter_group(self.cgroup.as_deref())?;
        let own = Claim::Runner(Identity::own().context("identify this process")?);
        let holder = match claim(&self.claim, &own) {
            Ok(holder) => holder,
            Err(error) => return fail(error, "claim the attempt"),
        };
        if holder != own {
            bail!("another process has claimed this attempt");
        }
        // From here on, the host is at fault.
        self.start().or_else(|error| {
            failure::print(&error);
            Ok(Exit::NotStarted)
        })
    }

    /// Becomes the runner.
    fn start(&self) -> anyhow::Result<Exit> {
        // A core dump would contain users' data.
        let limits = [(Resource::Core, Some(0)), (Resource::Data, self.memory)];
        limit(limits).context("limit the runner")?;
        let mut runner = Command::new(&self.runner);
        // Looked up before the sandbox, which excludes the user database.
        let entry = self.run_as.map(Account::look_up).transpose().context("look up the user")?;
        if !self.allow_root.is_empty() {
            self.fence()?.enter()?;
        }
        if let Some(entry) = entry {
            become_user(&entry, &mut runner)?;
        }
        if let Some(folder) = self.temporary() {
            if let Err(error) = std::fs::create_dir_all(&folder) {
                return fail(error, "create a folder for temporary files");
            }
            runner.env("TMPDIR", folder);
        }
        let error = runner.arg(&self.run_dir).exec();
        Err(error).with_context(|| format!("start {}", self.runner.display()))
    }

    /// A folder for temporary files, if the default one is outside the sandbox or belongs to another
    /// user.
    fn temporary(&self) -> Option<PathBuf> {
        let own = !self.allow_root.is_empty() || self.run_as.is_some();
        own.then(|| self.run_dir.join("tmp"))
    }

    fn fence(&self) -> anyhow::Result<Fence> {
        let spec = RunSpec::read(&self.run_dir).context("read the run's specification")?;
        let mut writable = self.allow_root.clone();
        writable.extend([self.run_dir.clone(), spec.cache_dir]);
        // A plugin may be a link into another installation, with libraries beside it.
        let plugin = spec.plugin.canonicalize().unwrap_or(spec.plugin);
        let libraries = plugin.parent().map(PathBuf::from);
        let readable = libraries.into_iter().chain([self.runner.clone()]).collect();
        Ok(Fence { writable, readable })
    }
}

/// Reports a failing disk by the exit code, since writing an error may fail, too.
fn fail(error: io::Error, action: &'static str) -> anyhow::Result<Exit> {
    let transient = is_transient(&error);
    let error = anyhow::Error::new(error).context(action);
    if !transient {
        return Err(error);
    }
    failure::print(&error);
    Ok(Exit::DiskFailed)
}
