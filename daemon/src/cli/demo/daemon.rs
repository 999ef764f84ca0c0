//! A daemon of the demonstration's own: its socket, state and log are in a temporary folder.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use traind_proto::v1::{CancelJobRequest, DrainRequest};

use crate::cli::Global;
use crate::cli::connect::{client, remote};

const START_MAX: Duration = Duration::from_secs(30);
/// How long the daemon and a runner may take to exit.
const STOP_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);

pub(super) struct PrivateDaemon {
    folder: TempDir,
    process: Child,
    /// Addresses the daemon.
    pub global: Global,
}

impl PrivateDaemon {
    /// Starts a daemon that schedules `cores` CPU cores, and waits until it answers.
    pub(super) async fn start(
        cache_dir: &Path,
        cores: usize,
        runner: Option<PathBuf>,
    ) -> anyhow::Result<PrivateDaemon> {
        let folder = tempfile::Builder::new().prefix("traind-demo-").tempdir();
        let folder = folder.context("create a temporary folder")?;
        let socket = folder.path().join("socket");
        let mut options = vec![
            ("--cores", cores.to_string().into()),
            ("--socket", socket.clone().into()),
            ("--state-dir", folder.path().join("state").into()),
            ("--cache-dir", cache_dir.into()),
        ];
        options.extend(runner.map(|runner| ("--runner", runner.into())));
        let process = spawn(folder.path(), options)?;
        let global = Global { socket: Some(socket), remote: remote::Remote::default() };
        let mut daemon = PrivateDaemon { folder, process, global };
        daemon.wait_until_ready().await?;
        Ok(daemon)
    }

    async fn wait_until_ready(&mut self) -> anyhow::Result<()> {
        let (start, socket) = (Instant::now(), self.folder.path().join("socket"));
        while UnixStream::connect(&socket).await.is_err() {
            let ended = self.process.try_wait().context("wait for the daemon")?;
            if ended.is_some() || start.elapsed() > START_MAX {
                let log = fs::read_to_string(log_of(self.folder.path())).unwrap_or_default();
                bail!("the daemon did not start:\n{}", log.trim_end());
            }
            tokio::time::sleep(POLL).await;
        }
        Ok(())
    }

    /// Cancels a job that still runs, then stops the daemon. One that does not answer is killed.
    pub(super) async fn stop(mut self, running_job: Option<String>) {
        let stopped = tokio::time::timeout(STOP_MAX, self.drain(running_job)).await;
        if let Ok(Err(error)) = stopped {
            eprintln!("stop the daemon: {error:#}");
        }
        let _ = self.process.kill().await;
    }

    async fn drain(&mut self, running_job: Option<String>) -> anyhow::Result<()> {
        if let Some(job_id) = running_job {
            client::jobs(&self.global).await?.cancel_job(CancelJobRequest { job_id }).await?;
        }
        let request = DrainRequest { reason: "the demonstration has ended".to_owned() };
        let mut left = client::admin(&self.global).await?.drain(request).await?.into_inner();
        while left.message().await?.is_some() {}
        self.process.wait().await?;
        Ok(())
    }

    /// Keeps the temporary folder, which has the logs of a job that failed; returns its path.
    pub(super) fn keep(&mut self) -> PathBuf {
        self.folder.disable_cleanup(true);
        self.folder.path().to_owned()
    }
}

fn spawn(folder: &Path, options: Vec<(&str, OsString)>) -> anyhow::Result<Child> {
    let log = File::create(log_of(folder)).context("create the daemon's log")?;
    let program = std::env::current_exe().context("find this program")?;
    Command::new(program)
        .args(["serve", "--run-as", "daemon"])
        .args(options.iter().flat_map(|(name, value)| [OsStr::new(name), value]))
        // Ctrl-C reaches this program alone, which then stops the daemon.
        .process_group(0)
        .kill_on_drop(true)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .context("start the daemon")
}

fn log_of(folder: &Path) -> PathBuf {
    folder.join("daemon.log")
}
