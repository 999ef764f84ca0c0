//! The folder of one job: what the daemon and its runner leave for each other.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Paths within `<state_dir>/jobs/<job_id>`.
#[derive(Clone, Debug)]
pub(crate) struct RunDir {
    path: PathBuf,
}

impl RunDir {
    pub(crate) fn new(state_dir: &Path, job_id: &str) -> RunDir {
        RunDir { path: state_dir.join("jobs").join(job_id) }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The runner's durable events.
    pub(crate) fn events_log(&self) -> PathBuf {
        self.path.join("events.log")
    }

    /// What the runner and its plugin print.
    pub(crate) fn runner_log(&self) -> PathBuf {
        self.path.join("runner.log")
    }

    /// Where the runner serves `traind.v1.Runner`.
    pub(crate) fn socket(&self) -> PathBuf {
        self.path.join("runner.sock")
    }

    /// What the job was when it was accepted.
    pub(crate) fn record(&self) -> PathBuf {
        self.path.join("job.json")
    }

    /// There if somebody asked for the end of the job.
    pub(crate) fn cancelled(&self) -> PathBuf {
        self.path.join("cancelled")
    }

    /// Names the control group of the job's processes.
    pub(crate) fn cgroup(&self) -> PathBuf {
        self.path.join("cgroup")
    }

    /// Names the process of an attempt: see [`super::claim`].
    pub(crate) fn claim(&self, attempt: u32) -> PathBuf {
        self.path.join(format!("runner-{attempt}.json"))
    }

    /// Makes the folder, closed to others.
    pub(crate) fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// The file that takes the runner's standard streams.
    pub(crate) fn open_runner_log(&self) -> io::Result<File> {
        OpenOptions::new().create(true).append(true).mode(0o600).open(self.runner_log())
    }

    /// The last lines of the runner's output: at most `lines`, from its last 16 KiB.
    pub(crate) fn runner_log_tail(&self, lines: usize) -> String {
        let bytes = tail(&self.runner_log(), 16 * 1024).unwrap_or_default();
        let text = String::from_utf8_lossy(&bytes);
        let all: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }
}

fn tail(path: &Path, bytes: u64) -> io::Result<Vec<u8>> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(bytes)))?;
    let mut text = Vec::new();
    file.take(bytes).read_to_end(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn the_tail_is_the_last_lines() {
        let folder = tempfile::tempdir().unwrap();
        let run_dir = RunDir::new(folder.path(), "a");
        assert_eq!(run_dir.runner_log_tail(2), "");
        run_dir.create().unwrap();
        run_dir.open_runner_log().unwrap().write_all(b"one\ntwo\n\nthree \xff\n").unwrap();
        assert_eq!(run_dir.runner_log_tail(2), "two\nthree \u{fffd}");
    }
}
