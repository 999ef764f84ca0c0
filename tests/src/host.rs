//! A machine for one test: a scratch folder, a daemon in it that can be killed and started
//! again, and clients of it.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Response, Status};
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::{self, CreateJobRequest, Event, Job, JobState};

use crate::binaries;
use crate::processes::{alive, kill, kill_runners};
use crate::story::Story;

/// No wait in these tests should come near it.
pub const PATIENCE: Duration = Duration::from_secs(120);

pub struct Host {
    folder: TempDir,
    cores: u32,
    options: Vec<String>,
    /// What the daemon gets besides the environment of the tests.
    environment: Vec<(String, String)>,
    daemon: Option<Child>,
}

/// What a command printed and exited with.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Host {
    /// A host with `cores` cores and a daemon that answers. What one test compiles is there for
    /// all: without that, they would do little else.
    pub async fn started(cores: u32) -> Host {
        Host::started_with(cores, &[]).await
    }

    /// The same with a daemon that was given more options.
    pub async fn started_with(cores: u32, options: &[&str]) -> Host {
        let mut host = Host::prepared(cores);
        host.options = options.iter().map(|option| (*option).to_owned()).collect();
        host.start().await;
        host
    }

    /// The same before its daemon is started.
    pub fn prepared(cores: u32) -> Host {
        let host = Host::cold(cores);
        symlink(binaries::shared_executables(), host.path("cache/executables")).unwrap();
        host
    }

    /// Gives the daemon more environment when it is started.
    pub fn set_environment(&mut self, environment: Vec<(String, String)>) {
        self.environment = environment;
    }

    /// The same with a daemon that has more in its environment.
    pub async fn started_knowing(cores: u32, environment: Vec<(&'static str, String)>) -> Host {
        let mut host = Host::prepared(cores);
        let named = environment.into_iter().map(|(name, value)| (name.to_owned(), value));
        host.set_environment(named.collect());
        host.start().await;
        host
    }

    /// The same with nothing compiled.
    pub async fn started_cold(cores: u32) -> Host {
        let mut host = Host::cold(cores);
        host.start().await;
        host
    }

    /// A host whose daemon is not started, with nothing compiled.
    pub fn cold(cores: u32) -> Host {
        let folder = tempfile::Builder::new().prefix("traind-").tempdir().unwrap();
        let host =
            Host { folder, cores, options: Vec::new(), environment: Vec::new(), daemon: None };
        host.install_plugin();
        host
    }

    /// Puts the real CPU plugin where the daemon looks for it.
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

    /// Starts the daemon and waits until it answers.
    pub async fn start(&mut self) {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("daemon.log"));
        let mut command = self.traind();
        command.arg("serve").arg("--state-dir").arg(self.path("state"));
        command.args(["--cores", &self.cores.to_string(), "--restart-delay", "0"]);
        command.args(&self.options).envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.unwrap());
        self.daemon = Some(command.spawn().unwrap());
        let start = Instant::now();
        while UnixStream::connect(self.socket()).await.is_err() {
            self.assert_daemon_lives();
            assert!(start.elapsed() < PATIENCE, "{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Options of the daemon from its next start on.
    pub fn add_options(&mut self, options: &[&str]) {
        self.options.extend(options.iter().map(|option| (*option).to_owned()));
    }

    /// As a power cut does: no goodbye.
    pub fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Ends the daemon and all runners.
    pub fn kill_all(&mut self) {
        self.kill_daemon();
        kill_runners(&self.path("state/jobs"));
    }

    /// Waits for a daemon that was told to leave.
    pub fn wait_for_end(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        assert!(daemon.wait().unwrap().success(), "{}", self.log());
    }

    /// Kills the runner of an attempt, as the kernel does when memory runs out; false where it
    /// has ended by itself.
    pub fn kill_runner(&self, id: &str, attempt: u32) -> bool {
        let path = self.path(&format!("state/records/{id}/runner-{attempt}.json"));
        let claim: serde_json::Value = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
        let pid = claim["runner"]["pid"].as_u64().unwrap() as u32;
        alive(pid) && kill(pid)
    }

    pub fn assert_daemon_lives(&mut self) {
        let exit = self.daemon.as_mut().unwrap().try_wait().unwrap();
        assert_eq!(exit, None, "{}", self.log());
    }

    /// A `traind` command of this host's user.
    pub fn traind(&self) -> Command {
        let mut command = Command::new(binaries::traind());
        command.env("TRAIND_SOCKET", self.socket()).env("TRAIND_CACHE_DIR", self.path("cache"));
        command.env_remove("TRAIND_STATE_DIR").env_remove("TRAIND_PLUGIN_CPU");
        command
    }

    /// Runs a `traind` command in `folder` to its end.
    pub fn cli(&self, folder: &Path, arguments: &[&str]) -> Said {
        Said::of(self.traind().current_dir(folder).args(arguments).output().unwrap())
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

    /// What the job's runner and its plugin printed.
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
        let request = v1::GetJobRequest { job_id: id.to_owned() };
        self.jobs().await.get_job(request).await.unwrap().into_inner()
    }

    pub async fn cancel(&self, id: &str) -> Job {
        let request = v1::CancelJobRequest { job_id: id.to_owned() };
        self.jobs().await.cancel_job(request).await.unwrap().into_inner()
    }

    /// Waits until the job is as `wanted`.
    pub async fn until(&self, id: &str, wanted: impl Fn(&Job) -> bool) -> Job {
        let start = Instant::now();
        loop {
            let job = self.get(id).await;
            if wanted(&job) {
                return job;
            }
            assert!(start.elapsed() < PATIENCE, "{job:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(5)).await;
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

    /// All events of a job to its end, and how it stands then.
    pub async fn watch(&self, id: &str) -> Story {
        let request = v1::WatchJobRequest { job_id: id.to_owned(), from_sequence: 0 };
        let mut stream = self.jobs().await.watch_job(request).await.unwrap().into_inner();
        let mut events: Vec<Event> = Vec::new();
        let collect = async {
            while let Some(event) = stream.message().await.unwrap() {
                events.push(event);
            }
        };
        let ended = tokio::time::timeout(PATIENCE, collect).await;
        assert!(ended.is_ok(), "the job did not end: {:?}\n{}", events.last(), self.log());
        Story { job: self.get(id).await, events }
    }

    /// Submits a job and follows it to its end.
    pub async fn run(&self, request: &CreateJobRequest) -> Story {
        let job = self.create(request).await.unwrap();
        self.watch(&job.id).await
    }

    /// The same for a job that has to complete.
    pub async fn complete(&self, request: &CreateJobRequest) -> Story {
        let story = self.run(request).await;
        let job = &story.job;
        assert_eq!(job.state(), JobState::Completed, "{job:?}\n{}", self.runner_log(&job.id));
        story
    }
}

impl Said {
    pub fn of(output: Output) -> Said {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Said { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }
}

impl Drop for Host {
    /// Runners outlive the daemon by design, but not this host.
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        kill_runners(&self.path("state/jobs"));
    }
}
