//! The process that tests idle cores by programs whose results are known.
//!
//! It runs the runner's program as the daemon's user and reads nothing of users. It ends with the pipe from its
//! daemon, so that a later daemon finds no test beside a job.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use traind_job_file::Platform;
use traind_job_file::commands::{CoreAnswer, TestCoresAnswer, TestCoresRequest};

use crate::host::pipes::{beginning, end};
use crate::host::process::ProcessGroup;
use crate::jobs::supervisor::environment::{Devices, test_environment};
use crate::jobs::supervisor::launch::{LaunchError, plugin_path};
use crate::settings::Settings;

/// The longest time of a test. Neuron's compiler takes minutes for its programs.
const TIMEOUT: Duration = Duration::from_secs(120);
pub(crate) const NEURON_TIMEOUT: Duration = Duration::from_secs(900);
const ANSWER_BYTES_MAX: u64 = 1 << 20;
/// How much of what a failed process wrote is quoted.
const SAID_BYTES_MAX: usize = 4096;
/// The folder of tests in the daemon's state. Only tests write programs there: jobs in a sandbox run as the same user,
/// and have another cache.
const FOLDER: &str = "core-tests";
/// Marks the processes of tests as none of a job.
pub(crate) const MARK: &str = "core-test";

#[derive(Debug, thiserror::Error)]
pub(crate) enum CoreTestError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("run the test: {0}")]
    Process(#[from] io::Error),
    #[error("the test took longer than {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the test ended with {status}{}{said}", if .said.is_empty() { "" } else { ": " })]
    Died { status: ExitStatus, said: String },
}

/// Tests cores together, in one process. Dropping the future ends it. Returns an answer for each core.
pub(crate) async fn test_cores(
    settings: &Settings,
    cores: &[u32],
) -> Result<Vec<CoreAnswer>, CoreTestError> {
    let is_own = |platform: &Platform| platform.as_str() == settings.host.platform;
    let platform = Platform::ALL.iter().copied().find(is_own).unwrap_or(Platform::Cpu);
    let plugin = plugin_path(&settings.host.platform, &settings.cache_dir)?;
    let (cache_dir, plugin) = (settings.cache_dir.as_path(), plugin.as_path());
    let devices = Devices { platform, plugin, cache_dir, cores, seed: 0, mark: MARK };
    let folder = Folder::create(settings, cores)?;
    let mut command = Command::new(&settings.runner);
    command
        .arg("test-cores")
        .env_clear()
        .envs(test_environment(std::env::vars_os(), devices))
        .current_dir(&folder.0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let request = TestCoresRequest {
        platform: settings.host.platform.clone(),
        plugin: plugin.to_owned(),
        cores: cores.to_vec(),
        executables: settings.state_dir.join(FOLDER).join("executables"),
    };
    let mut request = serde_json::to_vec(&request).map_err(io::Error::other)?;
    request.push(b'\n');
    let timeout = if platform == Platform::Neuron { NEURON_TIMEOUT } else { TIMEOUT };
    let mut child = command.spawn()?;
    // A test that does not answer ends with the processes that it started, such as Neuron's compiler.
    let group = ProcessGroup::of(&child);
    let answered = tokio::time::timeout(timeout, ask(&mut child, &request, cores.len())).await;
    let answered = answered.unwrap_or(Err(CoreTestError::Timeout(timeout)));
    if answered.is_ok() {
        group.release();
    }
    answered
}

/// The folder in which a test runs, since Neuron's compiler leaves files in the current one.
struct Folder(PathBuf);

impl Folder {
    /// Makes a folder for a test of some cores, which no other test has.
    fn create(settings: &Settings, cores: &[u32]) -> io::Result<Folder> {
        let first = cores.first().copied().unwrap_or_default();
        let path = settings.state_dir.join(FOLDER).join(first.to_string());
        DirBuilder::new().recursive(true).mode(0o700).create(&path)?;
        Ok(Folder(path))
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.0) {
            tracing::debug!(path = %self.0.display(), %error, "remove the folder of a test");
        }
    }
}

async fn ask(
    child: &mut Child,
    request: &[u8],
    count: usize,
) -> Result<Vec<CoreAnswer>, CoreTestError> {
    // The process ends where the pipe is closed, so it stays open until the answer is there.
    let mut pipe = child.stdin.take();
    if let Some(pipe) = &mut pipe {
        // A process that does not read its input says why when it ends.
        let _ = pipe.write_all(request).await;
    }
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let (answer, said) = tokio::join!(beginning(out, ANSWER_BYTES_MAX), end(err, SAID_BYTES_MAX));
    let status = child.wait().await?;
    drop(pipe);
    let answer: Option<TestCoresAnswer> = serde_json::from_slice(&answer?).ok();
    match answer.filter(|answer| status.success() && answer.cores.len() == count) {
        Some(answer) => Ok(answer.cores),
        None => {
            let said = String::from_utf8_lossy(&said?).trim().to_owned();
            Err(CoreTestError::Died { status, said })
        }
    }
}
