//! Everything that a runner started, however it was forked.
//!
//! Two nets. Where the daemon may make control groups, each job has one, and the kernel
//! ends all in it at once. Everywhere, children inherit the job's id in their environment.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::jobs::run_dir::RunDir;
use crate::settings::Settings;

/// The variable that marks a runner and its children.
pub(super) const MARK: &str = "TRAIND_JOB_ID";
/// A process may fork while it is looked for; none does so this often without dying.
const ROUNDS_MAX: usize = 20;

/// How long a killed process may take to leave its control group.
const LEAVING_MAX: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(5);

/// The processes of one job.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// An entry of `/proc/<pid>/environ`.
    mark: String,
    cgroup: Option<PathBuf>,
}

impl Tree {
    /// Prepares for a job's first process; its group is made below `cgroups`, if any.
    pub(super) fn create(run_dir: &RunDir, job_id: &str, settings: &Settings) -> Tree {
        Tree::create_below(run_dir, job_id, settings.cgroup.as_deref(), settings.memory_per_job)
    }

    fn create_below(
        run_dir: &RunDir,
        job_id: &str,
        cgroups: Option<&Path>,
        memory: Option<u64>,
    ) -> Tree {
        let made = cgroups.and_then(|folder| {
            let cgroup = folder.join(format!("traind-{job_id}"));
            let made = make(&cgroup)
                .and_then(|()| fs::write(run_dir.cgroup(), cgroup.as_os_str().as_encoded_bytes()));
            if let Some(Err(error)) = memory.map(|bytes| limit_memory(&cgroup, bytes)) {
                tracing::debug!(cgroup = %cgroup.display(), %error, "limit a control group's memory");
            }
            made.inspect_err(|error| {
                tracing::warn!(cgroup = %cgroup.display(), %error, "make a control group");
            })
            .ok()
            .map(|()| cgroup)
        });
        Tree { mark: format!("{MARK}={job_id}"), cgroup: made }
    }

    /// The processes of a job that an earlier daemon started.
    pub(super) fn find(run_dir: &RunDir, job_id: &str) -> Tree {
        let cgroup = fs::read_to_string(run_dir.cgroup()).ok().map(PathBuf::from);
        Tree { mark: format!("{MARK}={job_id}"), cgroup: cgroup.filter(|path| path.is_dir()) }
    }

    /// The control group that the runner is to enter.
    pub(super) fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref()
    }

    /// Ends all of them at once.
    pub(super) fn kill(&self) -> io::Result<()> {
        if let Some(cgroup) = &self.cgroup {
            // Kernels before 5.14 lack the file; the marks are enough for what does not hide.
            let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        }
        let mut killed = HashSet::new();
        for _ in 0..ROUNDS_MAX {
            // One that was killed forks no more, though it may take its time to be gone.
            let found = kill_marked(self.mark.as_bytes())?;
            if found.into_iter().filter(|pid| killed.insert(*pid)).count() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// After `kill`: what was killed may take a moment to be gone.
    pub(super) fn remove(&self) {
        let Some(cgroup) = &self.cgroup else { return };
        let start = Instant::now();
        loop {
            match fs::remove_dir(cgroup) {
                Err(error) if is_busy(&error) && start.elapsed() < LEAVING_MAX => {
                    std::thread::sleep(RETRY);
                }
                Err(error) if error.kind() != ErrorKind::NotFound => {
                    return tracing::warn!(cgroup = %cgroup.display(), %error, "remove a control group");
                }
                _ => return,
            }
        }
    }
}

fn is_busy(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::BUSY)
}

/// The launcher limits each process; this limits all that a job starts together. A group that runs
/// out of it ends as a whole: a runner without its children is of no use, nor they without it.
fn limit_memory(cgroup: &Path, bytes: u64) -> io::Result<()> {
    fs::write(cgroup.join("memory.max"), bytes.to_string())?;
    fs::write(cgroup.join("memory.oom.group"), "1")
}

/// An earlier attempt may have left it.
fn make(cgroup: &Path) -> io::Result<()> {
    match fs::create_dir(cgroup) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Returns who they were.
fn kill_marked(mark: &[u8]) -> io::Result<Vec<Pid>> {
    let mut killed = Vec::new();
    for entry in fs::read_dir("/proc")?.flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse().ok()) else { continue };
        if pid == std::process::id() as i32 || !is_marked(pid, mark) {
            continue;
        }
        let Some(pid) = Pid::from_raw(pid) else { continue };
        let Ok(pidfd) = pidfd_open(pid, PidfdFlags::empty()) else { continue };
        // Looked at again: from here on the pidfd cannot mean another process.
        if is_marked(pid.as_raw_pid(), mark) {
            match pidfd_send_signal(&pidfd, Signal::KILL) {
                Ok(()) => killed.push(pid),
                Err(Errno::SRCH) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(killed)
}

/// A zombie has no environment any more, another user's process none that can be read.
fn is_marked(pid: i32, mark: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_double_fork_does_not_escape() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "tree-test");
        run_dir.create(None).unwrap();
        let tree = Tree::create_below(&run_dir, "tree-test", None, None);
        let child = folder.path().join("child");
        // In a session of its own and without a parent.
        let script = format!(
            "(setsid sh -c 'echo $$ > {0}.new; mv {0}.new {0}; sleep 1000' &)",
            child.display()
        );
        let status = Command::new("sh")
            .args(["-c", &script])
            .env(MARK, "tree-test")
            .stdout(Stdio::null())
            .status();
        assert!(status.unwrap().success());
        while !child.exists() {
            std::thread::yield_now();
        }
        let pid: i32 = fs::read_to_string(&child).unwrap().trim().parse().unwrap();
        assert!(is_marked(pid, b"TRAIND_JOB_ID=tree-test"));
        tree.kill().unwrap();
        while is_marked(pid, b"TRAIND_JOB_ID=tree-test") {
            std::thread::yield_now();
        }
    }

    #[test]
    fn a_group_with_a_limit_ends_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        run_dir.create(None).unwrap();
        let tree = Tree::create_below(&run_dir, "a", Some(folder.path()), Some(5 << 30));
        let told = |name| fs::read_to_string(tree.cgroup().unwrap().join(name)).unwrap();
        assert_eq!(told("memory.max"), "5368709120");
        assert_eq!(told("memory.oom.group"), "1");
    }

    #[test]
    fn a_job_found_again_has_the_group_it_was_given() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        run_dir.create(None).unwrap();
        let made = Tree::create_below(&run_dir, "a", Some(folder.path()), None);
        assert_eq!(made.cgroup(), Some(folder.path().join("traind-a").as_path()));
        assert_eq!(Tree::find(&run_dir, "a").cgroup(), made.cgroup());
        made.remove();
        assert_eq!(Tree::find(&run_dir, "a").cgroup(), None);
    }
}
