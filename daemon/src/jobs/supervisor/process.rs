//! A runner's process: spawning it or finding it again, watching it and killing it.
//!
//! A pidfd identifies the process throughout, so that a signal never reaches another process
//! that reuses its pid.

use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use traind_job_file::{Platform, RunSpec};

use super::environment::{STEP_GATES, check_selection, is_secret, runner_environment};
use super::tree::Tree;
use crate::access::account::Account;
use crate::host::process::Identity;
use crate::jobs::run_dir::RunDir;
use crate::settings::Settings;

/// A runner that was alive when this value was created.
#[derive(Debug)]
pub(super) struct RunnerProcess {
    pidfd: OwnedFd,
    tree: Tree,
    /// When the process started.
    pub(super) since: Instant,
    /// `None` if an earlier daemon was its parent.
    child: Option<Child>,
}

impl RunnerProcess {
    /// Starts the runner for the attempt of `spec` through `traind launch`, which opens a new session
    /// and claims the attempt before it executes the runner.
    pub(super) fn spawn(
        settings: &Settings,
        run_dir: &RunDir,
        spec: &RunSpec,
        account: Option<Account>,
    ) -> io::Result<RunnerProcess> {
        let is_neuron = spec.job.resources.platform == Platform::Neuron;
        if is_neuron {
            let given = std::env::var_os("NEURON_RT_VISIBLE_CORES");
            check_selection(&spec.cores, given.as_deref()).map_err(io::Error::other)?;
        }
        let log = run_dir.open_runner_log()?;
        let tree = Tree::create(run_dir, &spec.job_id, settings);
        let cgroup = tree.cgroup().map(|path| format!("--cgroup={}", path.display()));
        let memory = settings.memory_per_job.map(|bytes| format!("--memory={bytes}"));
        let roots = settings.roots.paths().map(|path| format!("--allow-root={}", path.display()));
        // Users can read the environment of their processes, so another user's gets no secrets.
        let environment = std::env::vars_os()
            .filter(|(name, value)| account.is_none() || !is_secret(name, value));
        let mut child = Command::new("/proc/self/exe")
            .arg("launch")
            .args(cgroup)
            .args(memory)
            .args(roots)
            .args(account.map(|account| format!("--run-as={account}")))
            .args([run_dir.claim(spec.attempt).as_path(), &settings.runner, run_dir.path()])
            .env_clear()
            .envs(runner_environment(environment, spec))
            // Compiler and plugin write files, and the sandbox excludes `/tmp`.
            .envs(is_neuron.then(|| ("TMPDIR", run_dir.path())))
            .envs(settings.test_step_gates.as_ref().map(|dir| (STEP_GATES, dir)))
            .current_dir(run_dir.path())
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(pidfd) => {
                let since = Instant::now();
                Ok(RunnerProcess { pidfd, tree, since, child: Some(child) })
            }
            Err(error) => {
                // A runner that cannot be watched must not run beside the one of the next attempt.
                child.kill()?;
                child.wait()?;
                Err(error.into())
            }
        }
    }

    /// Finds a runner that an earlier daemon started. If it has ended, kills the processes that it
    /// left behind and returns `None`.
    pub(super) fn attach(identity: &Identity, tree: Tree) -> io::Result<Option<RunnerProcess>> {
        let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::from_raw) else {
            return Ok(None);
        };
        let pidfd = match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => pidfd,
            Err(Errno::SRCH) => return clear(&tree).map(|()| None),
            Err(error) => return Err(error.into()),
        };
        // Checked after opening: from here on the pidfd cannot refer to another process.
        if identity.is_alive() {
            let now = Instant::now();
            let since = now.checked_sub(identity.age()).unwrap_or(now);
            return Ok(Some(RunnerProcess { pidfd, tree, since, child: None }));
        }
        clear(&tree).map(|()| None)
    }

    /// Whether the process has exited.
    pub(super) fn has_ended(&self) -> bool {
        let mut descriptors = [PollFd::new(&self.pidfd, PollFlags::IN)];
        let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut descriptors, Some(&at_once)).is_ok_and(|ready| ready > 0)
    }

    /// Sends SIGINT: the job was cancelled, and the runner ends after the current step.
    pub(super) fn cancel(&self) -> io::Result<()> {
        ignore_gone(pidfd_send_signal(&self.pidfd, Signal::INT))
    }

    /// Sends SIGTERM: the runner saves a checkpoint after the current step and ends.
    pub(super) fn interrupt(&self) -> io::Result<()> {
        ignore_gone(pidfd_send_signal(&self.pidfd, Signal::TERM))
    }

    /// Kills the runner and every process that it started.
    pub(super) fn kill(&self) -> io::Result<()> {
        ignore_gone(pidfd_send_signal(&self.pidfd, Signal::KILL))?;
        self.tree.kill()
    }

    /// Kills the processes that the ended runner left behind, and returns its exit status, which is
    /// known only for a child.
    pub(super) fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        self.tree.kill()?;
        let status = self.child.as_mut().map(Child::wait).transpose();
        let tree = self.tree.clone();
        tokio::task::spawn_blocking(move || tree.remove());
        status
    }
}

/// Kills the processes that a runner left behind.
fn clear(tree: &Tree) -> io::Result<()> {
    tree.kill()?;
    tree.remove();
    Ok(())
}

fn ignore_gone(result: Result<(), Errno>) -> io::Result<()> {
    match result {
        Ok(()) | Err(Errno::SRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
