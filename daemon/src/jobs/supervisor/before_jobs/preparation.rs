//! The process that prepares a waiting job: its data and programs get into the caches before it starts.
//!
//! It is no attempt of the job: it has no claim, writes no file of the job, and holds no lock that a
//! runner waits for. It ends with the pipe from its daemon, so a daemon that is killed leaves none behind.

use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::{Child, Command};
use traind_job_file::commands::{PrepareAnswer, PrepareRequest};
use traind_job_file::{JobFile, Platform, RunSpec};

use crate::host::meter::{Meter, Metering};
use crate::host::pipes::beginning;
use crate::jobs::run_dir::RunDir;
use crate::jobs::store::Job;
use crate::jobs::supervisor::environment::{
    is_secret, neuron_compile_environment, runner_environment,
};
use crate::jobs::supervisor::launch::{LaunchError, device_kind, plugin_path, prepare_cache};
use crate::jobs::supervisor::tree::{self, Tree};
use crate::settings::Settings;

/// The longest time of a preparation. Neuron's compiler takes minutes for each program.
const TIMEOUT: Duration = Duration::from_secs(600);
const NEURON_TIMEOUT: Duration = Duration::from_secs(3600);
/// The share of the memory that is free at the start which a preparation may use.
const FREE_MEMORY_SHARE: u64 = 2;
const ANSWER_BYTES_MAX: u64 = 64 << 10;
/// Names a folder in which runners leave their programs as text.
const DUMP_PROGRAMS: &str = "TRAIND_DUMP_PROGRAMS";

#[derive(Debug, thiserror::Error)]
pub(crate) enum PreparationError {
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("run the preparation: {0}")]
    Process(#[from] io::Error),
    #[error("the preparation took longer than {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("the preparation ended with {0}")]
    Died(ExitStatus),
}

/// The folders and the specification of a preparation.
pub(crate) struct Preparation {
    request: PrepareRequest,
    job: Job,
}

impl Preparation {
    /// Prepares the folders of `job`, whose resolved job file is `resolved`. Blocks.
    pub(crate) fn new(
        settings: &Settings,
        job: Job,
        resolved: JobFile,
    ) -> Result<Preparation, PreparationError> {
        // Devices of a CPU count from 0 whatever cores the job will get.
        let cores: Vec<u32> = (0..resolved.resources.cores).collect();
        let spec = RunSpec {
            job_id: job.id.clone(),
            attempt: job.attempt + 1,
            job: resolved,
            plugin: plugin_path(&job.platform, &settings.cache_dir)?,
            cache_dir: settings.cache_dir_of(job.run_as),
            cache_bytes_max: Some(settings.cache_bytes_max_of(&job.owner, job.run_as)),
            device_kind: device_kind(&settings.host, &settings.host.cores),
            cores,
        };
        if let Some(account) = job.run_as {
            prepare_cache(account, &spec.cache_dir)?;
        }
        let run_dir = RunDir::new(&settings.state_dir, &job.id);
        run_dir.create(job.run_as)?;
        let request = PrepareRequest { spec, folder: run_dir.preparation() };
        Ok(Preparation { request, job })
    }

    /// Runs the preparation to its end, and adds its processor time to `meter`. Dropping the future ends the process.
    pub(crate) async fn run(
        &self,
        settings: &Settings,
        meter: &Meter,
    ) -> Result<PrepareAnswer, PreparationError> {
        let tree = Tree::of_preparation(&self.job.id, settings);
        let _removal = RemoveGroup(tree.clone());
        let mut child = self.command(settings, &tree).spawn()?;
        let timeout = self.timeout();
        // Dropped before the process is killed.
        let metering = meter.of_process(child.id());
        let answered = tokio::time::timeout(timeout, self.ask(&mut child, metering)).await;
        answered.unwrap_or(Err(PreparationError::Timeout(timeout)))
    }

    fn timeout(&self) -> Duration {
        match self.request.spec.job.resources.platform {
            Platform::Neuron => NEURON_TIMEOUT,
            _ => TIMEOUT,
        }
    }

    async fn ask(
        &self,
        child: &mut Child,
        metering: Metering,
    ) -> Result<PrepareAnswer, PreparationError> {
        let mut request = serde_json::to_vec(&self.request).map_err(io::Error::other)?;
        request.push(b'\n');
        // The process ends where the pipe is closed, so it stays open until the answer is there.
        let mut pipe = child.stdin.take();
        if let Some(pipe) = &mut pipe {
            pipe.write_all(&request).await?;
        }
        let answer = beginning(child.stdout.take(), ANSWER_BYTES_MAX).await?;
        drop(metering);
        let status = child.wait().await?;
        drop(pipe);
        serde_json::from_slice(&answer).map_err(|_| PreparationError::Died(status))
    }

    fn command(&self, settings: &Settings, tree: &Tree) -> Command {
        let option = |name: &str, value: &Path| {
            let mut option = OsString::from(format!("--{name}="));
            option.push(value);
            option
        };
        // Users can read the environment of their processes, so another user's gets no secrets.
        let other_user = self.job.run_as.is_some();
        let environment =
            std::env::vars_os().filter(|(name, value)| !other_user || !is_secret(name, value));
        let memory = settings.memory_per_job.into_iter().chain(share_of_free_memory()).min();
        // The process makes its folder with the rights of its user, so that the folder above is open to it.
        let run_dir = self.request.folder.parent();
        let writable = [Some(self.request.spec.cache_dir.as_path()), run_dir].into_iter().flatten();
        let writable = writable.filter(|_| !settings.roots.is_empty());
        let mut command = Command::new("/proc/self/exe");
        command
            .arg("preparer")
            .args(tree.cgroup().map(|cgroup| option("cgroup", cgroup)))
            .args(memory.map(|bytes| format!("--memory={bytes}")))
            .args(settings.roots.paths().map(|path| option("allow-root", path)))
            .arg(option("readable", &self.request.spec.plugin))
            .args(writable.map(|path| option("writable", path)))
            .args(self.job.run_as.map(|account| format!("--run-as={account}")))
            .arg(format!("--seconds={}", self.timeout().as_secs()))
            .args(settings.test_keep_priority.then_some("--keep-priority"))
            .arg(&settings.runner)
            .env_clear()
            .envs(runner_environment(environment, &self.request.spec))
            .env_remove(DUMP_PROGRAMS)
            .env(tree::MARK, tree::preparation_id(&self.job.id))
            .env("TMPDIR", &self.request.folder)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        if self.request.spec.job.resources.platform == Platform::Neuron {
            // The compiler leaves files in the current directory.
            command.current_dir(run_dir.unwrap_or(Path::new("/")));
            // The cores belong to the jobs that run.
            command.env_remove("NEURON_RT_VISIBLE_CORES");
            command.envs(neuron_compile_environment(
                settings.host.device(0),
                self.request.spec.cores.len(),
            ));
        }
        command
    }
}

/// Kills what a preparation leaves behind, such as compilers, and removes its control group. Its process is killed
/// first.
struct RemoveGroup(Tree);

impl Drop for RemoveGroup {
    fn drop(&mut self) {
        let tree = self.0.clone();
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        runtime.spawn_blocking(move || {
            if let Err(error) = tree.kill() {
                tracing::debug!(%error, "kill what a preparation left behind");
            }
            tree.remove();
        });
    }
}

/// A share of the memory that is free, so that jobs that start meanwhile find the rest.
fn share_of_free_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024 / FREE_MEMORY_SHARE)
}
