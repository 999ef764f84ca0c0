//! All processes of a job, including those that left the runner's process tree.
//!
//! They are found in two ways. If the daemon may create control groups, each job has one, which
//! the kernel kills as a whole. In any case, processes inherit the job's id in their environment.

use std::collections::HashSet;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::jobs::run_dir::RunDir;
use crate::settings::Settings;

/// The environment variable that marks a runner and its children.
pub(super) const MARK: &str = "TRAIND_JOB_ID";
/// Rounds of killing, since processes may fork while others are being found.
const ROUNDS_MAX: usize = 20;

/// How long a killed process may take to leave its control group.
const EXIT_MAX: Duration = Duration::from_secs(5);
const RETRY: Duration = Duration::from_millis(5);

/// The mark of the preparation of a job, whose processes are none of the job's.
pub(super) fn preparation_id(job_id: &str) -> String {
    format!("{job_id}-preparation")
}

/// The processes of one job.
#[derive(Clone, Debug)]
pub(super) struct Tree {
    /// The mark, as an entry of `/proc/<pid>/environ`.
    mark: String,
    cgroup: Option<PathBuf>,
}

impl Tree {
    /// Creates the control group for a new runner, if the settings have one for all jobs.
    pub(super) fn create(run_dir: &RunDir, job_id: &str, settings: &Settings) -> Tree {
        Tree::create_below(run_dir, job_id, settings.cgroup.as_deref(), settings.memory_per_job)
    }

    fn create_below(
        run_dir: &RunDir,
        job_id: &str,
        cgroups: Option<&Path>,
        memory: Option<u64>,
    ) -> Tree {
        let record =
            |cgroup: &Path| fs::write(run_dir.cgroup(), cgroup.as_os_str().as_encoded_bytes());
        let created = cgroups.and_then(|folder| {
            create_limited(folder.join(format!("traind-{job_id}")), memory, record)
        });
        Tree { mark: format!("{MARK}={job_id}"), cgroup: created }
    }

    /// Creates the control group for the preparation of a waiting job. It is not recorded, since a
    /// preparation ends with its daemon.
    pub(super) fn of_preparation(job_id: &str, settings: &Settings) -> Tree {
        let created = settings.cgroup.as_deref().and_then(|folder| {
            let cgroup = folder.join(format!("traind-{}", preparation_id(job_id)));
            create_limited(cgroup, settings.memory_per_job, |_| Ok(()))
        });
        Tree { mark: format!("{MARK}={}", preparation_id(job_id)), cgroup: created }
    }

    /// The processes of a job that an earlier daemon started.
    pub(super) fn find(run_dir: &RunDir, job_id: &str) -> Tree {
        let cgroup = fs::read_to_string(run_dir.cgroup()).ok().map(PathBuf::from);
        Tree { mark: format!("{MARK}={job_id}"), cgroup: cgroup.filter(|path| path.is_dir()) }
    }

    /// The control group that the runner is to enter, if any.
    pub(super) fn cgroup(&self) -> Option<&Path> {
        self.cgroup.as_deref()
    }

    /// Kills all of them.
    pub(super) fn kill(&self) -> io::Result<()> {
        if let Some(cgroup) = &self.cgroup {
            // Kernels before 5.14 lack the file; the environment finds most processes.
            let _ = fs::write(cgroup.join("cgroup.kill"), "1");
        }
        let mut killed = HashSet::new();
        for _ in 0..ROUNDS_MAX {
            // A killed process forks no more, though it may take time to exit.
            let found = kill_marked(self.mark.as_bytes())?;
            if found.into_iter().filter(|pid| killed.insert(*pid)).count() == 0 {
                break;
            }
        }
        Ok(())
    }

    /// Removes the control group, waiting for killed processes to exit.
    pub(super) fn remove(&self) {
        let Some(cgroup) = &self.cgroup else { return };
        let start = Instant::now();
        loop {
            match fs::remove_dir(cgroup) {
                Err(error) if is_busy(&error) && start.elapsed() < EXIT_MAX => {
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

/// Limits the memory of all processes of a job together, besides the launcher's limit for each. When
/// it is exceeded, the kernel kills the whole group, since its processes depend on each other.
fn limit_memory(cgroup: &Path, bytes: u64) -> io::Result<()> {
    fs::write(cgroup.join("memory.max"), bytes.to_string())?;
    fs::write(cgroup.join("memory.oom.group"), "1")
}

/// Creates a group and records it. Limits its memory where the kernel allows that.
fn create_limited(
    cgroup: PathBuf,
    memory: Option<u64>,
    record: impl FnOnce(&Path) -> io::Result<()>,
) -> Option<PathBuf> {
    let created = create(&cgroup).and_then(|()| record(&cgroup));
    if let Some(Err(error)) = memory.map(|bytes| limit_memory(&cgroup, bytes)) {
        tracing::debug!(cgroup = %cgroup.display(), %error, "limit a control group's memory");
    }
    match created {
        Ok(()) => Some(cgroup),
        Err(error) => {
            tracing::warn!(cgroup = %cgroup.display(), %error, "create a control group");
            None
        }
    }
}

/// Creates the group, unless an earlier attempt left it.
fn create(cgroup: &Path) -> io::Result<()> {
    match fs::create_dir(cgroup) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(error),
        _ => Ok(()),
    }
}

/// Kills all processes with the mark, and returns their ids.
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
        // Checked again: from here on the pidfd cannot refer to another process.
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

/// Whether the process has the mark. The environment of zombies and of other users' processes cannot
/// be read.
fn is_marked(pid: i32, mark: &[u8]) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|variable| variable == mark)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_forked_twice_is_killed() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "tree-test");
        run_dir.create(None).unwrap();
        let tree = Tree::create_below(&run_dir, "tree-test", None, None);
        let child = folder.path().join("child");
        // The process has a session of its own, and no parent.
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
    fn a_group_with_a_limit_is_killed_as_a_whole() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        run_dir.create(None).unwrap();
        let tree = Tree::create_below(&run_dir, "a", Some(folder.path()), Some(5 << 30));
        let read = |name| fs::read_to_string(tree.cgroup().unwrap().join(name)).unwrap();
        assert_eq!(read("memory.max"), "5368709120");
        assert_eq!(read("memory.oom.group"), "1");
    }

    #[test]
    fn a_job_found_again_has_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        run_dir.create(None).unwrap();
        let created = Tree::create_below(&run_dir, "a", Some(folder.path()), None);
        assert_eq!(created.cgroup(), Some(folder.path().join("traind-a").as_path()));
        assert_eq!(Tree::find(&run_dir, "a").cgroup(), created.cgroup());
        created.remove();
        assert_eq!(Tree::find(&run_dir, "a").cgroup(), None);
    }
}
