//! A simulated machine for one test: a scratch folder, a daemon in it that can be killed and
//! restarted, and clients of that daemon.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Instant;

use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Response, Status};
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::{self, CreateJobRequest, Event, Job, JobState};

use crate::binaries;
use crate::gate::Gate;
use crate::history::History;
use crate::processes::{alive, is_suspended, kill, kill_runners, suspend, wake};
use crate::wait::{POLL, timeout, until};

/// A variable of processes that compile: LLVM does not optimize programs, which takes half the time, and programs of
/// tests run a few times. XLA's own passes, which fuse and place operations, stay the same.
pub const UNOPTIMIZED: (&str, &str) = ("XLA_FLAGS", "--xla_backend_optimization_level=0");

pub struct Host {
    folder: TempDir,
    cores: u32,
    options: Vec<String>,
    /// Variables of the daemon besides the test's own environment.
    environment: Vec<(String, String)>,
    daemon: Option<Child>,
}

/// The output and exit code of a command.
#[derive(Debug)]
pub struct CommandOutput {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Host {
    /// A host with `cores` cores and a running daemon. Tests share their compiled programs, because
    /// compiling would otherwise take most of their time.
    pub async fn started(cores: u32) -> Host {
        Host::started_with(cores, &[]).await
    }

    /// A host with `cores` cores and a running daemon that has more options.
    pub async fn started_with(cores: u32, options: &[&str]) -> Host {
        let mut host = Host::prepared(cores);
        host.options = options.iter().map(|option| (*option).to_owned()).collect();
        host.start().await;
        host
    }

    /// A host whose daemon is not started yet.
    pub fn prepared(cores: u32) -> Host {
        let host = Host::cold(cores);
        symlink(binaries::shared_executables(), host.path("cache/executables")).unwrap();
        host
    }

    /// Sets more variables for the daemon from its next start.
    pub fn set_environment(&mut self, environment: Vec<(String, String)>) {
        self.environment = environment;
    }

    /// A running host with more variables in the daemon's environment.
    pub async fn started_with_environment(
        cores: u32,
        environment: Vec<(&'static str, String)>,
    ) -> Host {
        let mut host = Host::prepared(cores);
        let named = environment.into_iter().map(|(name, value)| (name.to_owned(), value));
        host.set_environment(named.collect());
        host.start().await;
        host
    }

    /// A running host whose programs LLVM optimizes as for users, and which shares none with most tests.
    pub async fn started_optimized(cores: u32) -> Host {
        Host::started_with_environment(cores, vec![(UNOPTIMIZED.0, String::new())]).await
    }

    /// A running host without compiled programs.
    pub async fn started_cold(cores: u32) -> Host {
        let mut host = Host::cold(cores);
        host.start().await;
        host
    }

    /// A host without compiled programs whose daemon is not started yet.
    pub fn cold(cores: u32) -> Host {
        let folder = tempfile::Builder::new().prefix("traind-").tempdir().unwrap();
        let host =
            Host { folder, cores, options: Vec::new(), environment: Vec::new(), daemon: None };
        host.install_plugin();
        host
    }

    /// Links the real CPU plugin to where the daemon looks for it.
    pub fn install_plugin(&self) {
        let path = self.plugin();
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(binaries::cpu_plugin(), path).unwrap();
    }

    /// Where the daemon looks for the CPU plugin.
    pub fn plugin(&self) -> PathBuf {
        self.path("cache/plugins/cpu-0.0.1/xla_cpu_pjrt.so")
    }

    /// Starts the daemon and waits until it accepts connections.
    pub async fn start(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("daemon.log"));
        let mut command = self.traind();
        command.arg("serve").arg("--state-dir").arg(self.path("state"));
        command.args(["--cores", &self.cores.to_string(), "--restart-delay", "0"]);
        command.arg("--test-step-gates").arg(self.path("gates"));
        // No runner is killed before the test's own deadline, so that one that ends has done so by itself, however slow
        // the machine is.
        command.args(["--grace-period", "86400"]);
        // A process of the lowest priority hardly runs beside other programs, and tests wait for some.
        command.arg("--test-keep-priority");
        command.args(&self.options).envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.unwrap());
        self.daemon = Some(command.spawn().unwrap());
        let start = Instant::now();
        while UnixStream::connect(self.socket()).await.is_err() {
            self.assert_daemon_lives();
            assert!(start.elapsed() < timeout(), "{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Adds options for the daemon from its next start.
    pub fn add_options(&mut self, options: &[&str]) {
        self.options.extend(options.iter().map(|option| (*option).to_owned()));
    }

    /// Kills the daemon with SIGKILL.
    pub fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Kills the daemon and all runners.
    pub fn kill_all(&mut self) {
        self.kill_daemon();
        kill_runners(&self.path("state/jobs"));
    }

    /// Waits for a daemon that was asked to exit.
    pub async fn wait_for_end(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        until("the daemon exits", || daemon.try_wait().unwrap().is_some()).await;
        assert!(daemon.wait().unwrap().success(), "{}", self.log());
    }

    /// Kills the runner of an attempt, as the kernel does when memory runs out. Returns false if it
    /// has already exited.
    pub fn kill_runner(&self, id: &str, attempt: u32) -> bool {
        let pid = self.runner_pid(id, attempt);
        alive(pid) && kill(pid)
    }

    /// The process id of the runner of an attempt.
    pub fn runner_pid(&self, id: &str, attempt: u32) -> u32 {
        let path = self.path(&format!("state/records/{id}/runner-{attempt}.json"));
        let claim: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        claim["runner"]["pid"].as_u64().unwrap() as u32
    }

    /// Stops the runner of an attempt with SIGSTOP, and waits until it does nothing any more.
    pub async fn suspend_runner(&self, id: &str, attempt: u32) {
        let pid = self.runner_pid(id, attempt);
        suspend(pid);
        until("the runner is suspended", || is_suspended(pid)).await;
    }

    /// Continues a runner that was stopped.
    pub fn wake_runner(&self, id: &str, attempt: u32) {
        wake(self.runner_pid(id, attempt));
    }

    /// Waits until the runner of an attempt has exited.
    pub async fn until_runner_exits(&self, id: &str, attempt: u32) {
        let pid = self.runner_pid(id, attempt);
        until("the runner exits", || !alive(pid)).await;
    }

    /// Makes a job of this name wait after `step`, before the first one for 0.
    pub fn gate(&self, job_name: &str, step: u64) -> Gate {
        Gate::close(self.path("gates").join(job_name), step)
    }

    /// Closes the gate before a job's rows that it does not begin with.
    pub fn gate_of_later_rows(&self, job_name: &str) -> Gate {
        Gate::close(self.path("gates").join(job_name), "later-rows")
    }

    /// Waits until the job waits at the gate.
    pub async fn until_at(&self, id: &str, gate: &Gate) -> Job {
        let at_gate = |job: &Job| gate.is_reached() || job.end_time.is_some();
        let job = self.until(id, at_gate).await;
        assert!(gate.is_reached(), "{job:?}\n{}", self.runner_log(id));
        job
    }

    pub fn assert_daemon_lives(&mut self) {
        let exit = self.daemon.as_mut().unwrap().try_wait().unwrap();
        assert_eq!(exit, None, "{}", self.log());
    }

    /// A `traind` command for this host, [`UNOPTIMIZED`].
    pub fn traind(&self) -> Command {
        let mut command = Command::new(binaries::traind());
        command.envs([UNOPTIMIZED]);
        command.env("TRAIND_SOCKET", self.socket()).env("TRAIND_CACHE_DIR", self.path("cache"));
        command.env_remove("TRAIND_STATE_DIR").env_remove("TRAIND_PLUGIN_CPU");
        command
    }

    /// Runs a `traind` command in `folder` and waits for it.
    pub fn cli(&self, folder: &Path, arguments: &[&str]) -> CommandOutput {
        CommandOutput::of(self.traind().current_dir(folder).args(arguments).output().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn socket(&self) -> PathBuf {
        self.path("traind.sock")
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("daemon.log")).unwrap_or_default()
    }

    /// The output of the job's runner and its plugin.
    pub fn runner_log(&self, id: &str) -> String {
        let path = self.path("state/jobs").join(id).join("runner.log");
        fs::read_to_string(path).unwrap_or_default()
    }

    async fn channel(&self) -> Channel {
        let socket = self.socket();
        let connector = tower::service_fn(move |_: Uri| {
            let socket = socket.clone();
            async move { UnixStream::connect(socket).await.map(TokioIo::new) }
        });
        Endpoint::from_static("http://traind").connect_with_connector(connector).await.unwrap()
    }

    pub async fn jobs(&self) -> JobsClient<Channel> {
        JobsClient::new(self.channel().await)
    }

    pub async fn cores(&self) -> Vec<v1::Core> {
        let mut cores = CoresClient::new(self.channel().await);
        cores.list_cores(v1::ListCoresRequest::default()).await.unwrap().into_inner().cores
    }

    pub async fn create(&self, request: &CreateJobRequest) -> Result<Job, Status> {
        self.jobs().await.create_job(request.clone()).await.map(Response::into_inner)
    }

    pub async fn get(&self, id: &str) -> Job {
        get(&mut self.jobs().await, id).await
    }

    pub async fn cancel(&self, id: &str) -> Job {
        let request = v1::CancelJobRequest { job_id: id.to_owned() };
        self.jobs().await.cancel_job(request).await.unwrap().into_inner()
    }

    /// Waits until the job satisfies `wanted`, for at most [`timeout`] after each of its events.
    pub async fn until(&self, id: &str, wanted: impl Fn(&Job) -> bool) -> Job {
        let mut latest = (0, Instant::now());
        // One connection: to connect takes more of a processor than to answer.
        let mut jobs = self.jobs().await;
        loop {
            let job = get(&mut jobs, id).await;
            if wanted(&job) {
                return job;
            }
            if job.last_sequence != latest.0 {
                latest = (job.last_sequence, Instant::now());
            }
            assert!(latest.1.elapsed() < timeout(), "{job:?}\n{}", self.log());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until the job has done more than `steps` steps.
    pub async fn until_past(&self, id: &str, steps: u64) -> Job {
        let past = |job: &Job| job.progress.as_ref().is_some_and(|step| step.step > steps);
        let ended = |job: &Job| job.end_time.is_some();
        let job = self.until(id, |job| past(job) || ended(job)).await;
        assert!(past(&job) && !ended(&job), "{job:?}\n{}", self.runner_log(id));
        job
    }

    /// Waits for a job's end, for at most [`timeout`] after each event, and returns its history.
    pub async fn watch(&self, id: &str) -> History {
        let request = v1::WatchJobRequest { job_id: id.to_owned(), from_sequence: 0 };
        let mut stream = self.jobs().await.watch_job(request).await.unwrap().into_inner();
        let mut events: Vec<Event> = Vec::new();
        loop {
            let Ok(next) = tokio::time::timeout(timeout(), stream.message()).await else {
                panic!("the job stopped after {:?}\n{}", events.last(), self.log());
            };
            match next.unwrap() {
                Some(event) => events.push(event),
                None => break,
            }
        }
        History { job: self.get(id).await, events }
    }

    /// Submits a job and waits for its end.
    pub async fn run(&self, request: &CreateJobRequest) -> History {
        let job = self.create(request).await.unwrap();
        self.watch(&job.id).await
    }

    /// Submits a job and waits for its successful end.
    pub async fn complete(&self, request: &CreateJobRequest) -> History {
        let history = self.run(request).await;
        let job = &history.job;
        assert_eq!(job.state(), JobState::Completed, "{job:?}\n{}", self.runner_log(&job.id));
        history
    }
}

async fn get(jobs: &mut JobsClient<Channel>, id: &str) -> Job {
    let request = v1::GetJobRequest { job_id: id.to_owned() };
    jobs.get_job(request).await.unwrap().into_inner()
}

impl CommandOutput {
    pub fn of(output: Output) -> CommandOutput {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        CommandOutput {
            code: output.status.code(),
            stdout: text(output.stdout),
            stderr: text(output.stderr),
        }
    }
}

impl Drop for Host {
    /// Runners outlive the daemon by design, but must not outlive the test.
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        kill_runners(&self.path("state/jobs"));
    }
}
