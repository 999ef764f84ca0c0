//! A machine for one test: scratch folders, a daemon that can be killed and started again,
//! and clients of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use hyper_util::rt::TokioIo;
use tempfile::TempDir;
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Code, Status};
use tower::service_fn;
use traind_proto::v1::cores_client::CoresClient;
use traind_proto::v1::jobs_client::JobsClient;
use traind_proto::v1::{self, CreateJobRequest, Event, Job, JobState};

use crate::support::runner;

/// Limit on every wait, far above its expected duration also on a machine that is ten times overloaded.
pub(crate) const PATIENCE: Duration = Duration::from_secs(180);

pub(crate) struct Host {
    folder: TempDir,
    cores: u32,
    pub(crate) options: Vec<String>,
    /// Environment variables of the daemon besides those of the tests.
    pub(crate) environment: Vec<(String, String)>,
    daemon: Option<Child>,
}

impl Host {
    /// A host with `cores` cores whose runner is the shell script `script`.
    pub(crate) fn new(cores: u32, script: &str) -> Host {
        let folder = tempfile::Builder::new().prefix("traind-").tempdir().unwrap();
        let path = folder.path();
        fs::create_dir_all(path.join("cache/plugins/cpu-0.0.1")).unwrap();
        fs::write(path.join("cache/plugins/cpu-0.0.1/xla_cpu_pjrt.so"), "").unwrap();
        fs::create_dir(path.join("model")).unwrap();
        fs::write(path.join("train.csv"), "text,label\na,0\n").unwrap();
        runner::install(path, script);
        Host { folder, cores, options: Vec::new(), environment: Vec::new(), daemon: None }
    }

    /// A host with a running daemon.
    pub(crate) async fn started(cores: u32, script: &str) -> Host {
        let mut host = Host::new(cores, script);
        host.start().await;
        host
    }

    /// A host with a daemon that has more options.
    pub(crate) async fn started_with(cores: u32, script: &str, options: &[&str]) -> Host {
        let mut host = Host::new(cores, script);
        host.options = options.iter().map(|option| (*option).to_owned()).collect();
        host.start().await;
        host
    }

    pub(crate) async fn start(&mut self) {
        self.start_with(self.serve()).await;
    }

    /// Starts the daemon by another command.
    pub(crate) async fn start_with(&mut self, mut serve: Command) {
        let mut daemon = serve.spawn().unwrap();
        let start = Instant::now();
        while !self.answers().await {
            assert_eq!(daemon.try_wait().unwrap(), None, "{}", self.log());
            assert!(start.elapsed() < PATIENCE, "{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        self.daemon = Some(daemon);
    }

    /// Whether a call is answered. Connecting is not enough: a launcher that has not executed the
    /// runner yet may hold the socket of a killed daemon open.
    async fn answers(&self) -> bool {
        let Ok(channel) = try_connect(self.socket()).await else { return false };
        match JobsClient::new(channel).list_jobs(v1::ListJobsRequest::default()).await {
            Ok(_) => true,
            Err(status) => {
                !matches!(status.code(), Code::Unavailable | Code::Unknown | Code::Cancelled)
            }
        }
    }

    /// Waits until the daemon accepts another call.
    pub(crate) async fn until_answered(&self) {
        let start = Instant::now();
        while self.jobs().await.list_jobs(v1::ListJobsRequest::default()).await.is_err() {
            assert!(start.elapsed() < PATIENCE, "{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// The command that starts this host's daemon.
    pub(crate) fn serve(&self) -> Command {
        let log = fs::OpenOptions::new().create(true).append(true).open(self.path("daemon.log"));
        let mut command = self.traind();
        command.arg("serve").arg("--state-dir").arg(self.path("state"));
        command.arg("--runner").arg(self.path("runner"));
        command.args(["--grace-period", "1", "--cores", &self.cores.to_string()]);
        command.args(&self.options);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log.unwrap());
        command
    }

    /// A `traind` command of this host's user.
    pub(crate) fn traind(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_traind"));
        command.env("TRAIND_SOCKET", self.socket()).env("TRAIND_CACHE_DIR", self.path("cache"));
        command.env_remove("TRAIND_STATE_DIR").env_remove("TRAIND_PLUGIN_CPU");
        command.current_dir(self.folder.path());
        command
    }

    /// Runs a `traind` command to its end.
    pub(crate) fn cli(&self, arguments: &[&str]) -> Output {
        self.traind().args(arguments).output().unwrap()
    }

    /// Runs a `traind` command to its end. Returns whether it succeeded, and what it wrote to both outputs.
    pub(crate) fn said(&self, arguments: &[&str]) -> (bool, String) {
        let output = self.cli(arguments);
        let texts = [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
        (output.status.success(), texts.concat())
    }

    /// Kills the daemon with SIGKILL.
    pub(crate) fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Stops the daemon with SIGTERM. Returns the exit code. The test's connections end meanwhile, for which the daemon
    /// waits some seconds.
    pub(crate) async fn stop_daemon(&mut self) -> Option<i32> {
        let pid = rustix::process::Pid::from_child(self.daemon.as_ref().unwrap());
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        self.daemon_end().await
    }

    /// Sends SIGHUP to the daemon.
    pub(crate) fn hang_up(&self) {
        let pid = rustix::process::Pid::from_child(self.daemon.as_ref().unwrap());
        rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    }

    /// Waits for a daemon that ends by itself. Returns the exit code.
    pub(crate) async fn daemon_end(&mut self) -> Option<i32> {
        let mut daemon = self.daemon.take().unwrap();
        let start = Instant::now();
        loop {
            if let Some(status) = daemon.try_wait().unwrap() {
                return status.code();
            }
            assert!(start.elapsed() < PATIENCE, "{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().unwrap().id()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn run_dir(&self, job_id: &str) -> PathBuf {
        self.path("state/jobs").join(job_id)
    }

    /// The daemon's records of a job.
    pub(crate) fn records(&self, job_id: &str) -> PathBuf {
        self.path("state/records").join(job_id)
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.path("traind.sock")
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("daemon.log")).unwrap_or_default()
    }

    pub(crate) async fn channel(&self) -> Channel {
        connect(self.socket()).await
    }

    pub(crate) async fn jobs(&self) -> JobsClient<Channel> {
        JobsClient::new(self.channel().await)
    }

    pub(crate) async fn cores(&self) -> CoresClient<Channel> {
        CoresClient::new(self.channel().await)
    }

    /// A request for a job called `name` on `cores` cores.
    pub(crate) fn request(&self, name: &str, cores: u32) -> CreateJobRequest {
        let job_file = format!(
            "name: {name}\n\
             model: {{name_or_path: ./model, task: sequence-classification, num_labels: 2}}\n\
             data: {{train: train.csv}}\n\
             resources: {{cores: {cores}}}\n\
             output_dir: out/{name}\n"
        );
        let base_dir = self.folder.path().display().to_string();
        CreateJobRequest { job_file, base_dir, ..Default::default() }
    }

    pub(crate) async fn create(&self, request: CreateJobRequest) -> Result<Job, Status> {
        self.jobs().await.create_job(request).await.map(tonic::Response::into_inner)
    }

    pub(crate) async fn submit(&self, name: &str, cores: u32) -> Job {
        self.create(self.request(name, cores)).await.unwrap()
    }

    /// Submits a job with more resource settings.
    pub(crate) async fn submit_with(&self, name: &str, resources: &str) -> Job {
        let mut request = self.request(name, 1);
        request.job_file = request.job_file.replace("{cores: 1}", &format!("{{{resources}}}"));
        self.create(request).await.unwrap()
    }

    pub(crate) async fn get(&self, id: &str) -> Job {
        let request = v1::GetJobRequest { job_id: id.to_owned() };
        self.jobs().await.get_job(request).await.unwrap().into_inner()
    }

    pub(crate) async fn cancel(&self, id: &str) -> Result<Job, Status> {
        let request = v1::CancelJobRequest { job_id: id.to_owned() };
        self.jobs().await.cancel_job(request).await.map(tonic::Response::into_inner)
    }

    /// All events of a job from `from_sequence` to its end.
    pub(crate) async fn events(&self, id: &str, from_sequence: u64) -> Vec<Event> {
        let request = v1::WatchJobRequest { job_id: id.to_owned(), from_sequence };
        let mut stream = self.jobs().await.watch_job(request).await.unwrap().into_inner();
        let mut events = Vec::new();
        let collect = async {
            while let Some(event) = stream.message().await.unwrap() {
                events.push(event);
            }
        };
        let ended = tokio::time::timeout(PATIENCE, collect).await;
        assert!(ended.is_ok(), "the job did not end: {events:?}\n{}", self.log());
        events
    }

    /// Waits until the job is as `wanted`.
    pub(crate) async fn until(&self, id: &str, wanted: impl Fn(&Job) -> bool) -> Job {
        let start = Instant::now();
        loop {
            let job = self.get(id).await;
            if wanted(&job) {
                return job;
            }
            assert!(start.elapsed() < PATIENCE, "{job:?}\n{}", self.log());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    pub(crate) async fn until_state(&self, id: &str, state: JobState) -> Job {
        self.until(id, |job| job.state() == state).await
    }
}

impl Drop for Host {
    /// Runners outlive the daemon by design, but not this host.
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        for pid in runner::pids(&self.path("state/jobs")) {
            let _ = rustix::process::kill_process_group(pid, rustix::process::Signal::KILL);
        }
    }
}

pub(crate) async fn connect(socket: PathBuf) -> Channel {
    try_connect(socket).await.unwrap()
}

pub(crate) async fn try_connect(socket: PathBuf) -> Result<Channel, tonic::transport::Error> {
    let connector = service_fn(move |_: Uri| {
        let socket = socket.clone();
        async move { UnixStream::connect(socket).await.map(TokioIo::new) }
    });
    Endpoint::from_static("http://traind").connect_with_connector(connector).await
}

/// A control group for one test, if this user may create one.
pub(crate) struct Cgroups(PathBuf);

impl Cgroups {
    pub(crate) fn make() -> Option<Cgroups> {
        let mounts = ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(PathBuf::from);
        let mount = mounts.into_iter().find(|path| path.join("cgroup.procs").exists())?;
        let path = mount.join(format!("traind-test-{}", std::process::id()));
        fs::create_dir(&path).ok().map(|()| Cgroups(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Cgroups {
    fn drop(&mut self) {
        for child in fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let _ = fs::remove_dir(child.path());
        }
        let _ = fs::remove_dir(&self.0);
    }
}

/// Waits until the daemon has logged `mark` and returns the word behind it.
pub(crate) async fn until_logged(host: &Host, mark: &str) -> String {
    let start = Instant::now();
    loop {
        let log = host.log();
        if let Some((_, rest)) = log.split_once(mark) {
            return rest.split_whitespace().next().unwrap_or_default().to_owned();
        }
        assert!(start.elapsed() < PATIENCE, "{mark:?} is not logged: {log}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Whether a process lives. A zombie does not.
pub(crate) fn lives(pid: &str) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until a file is there.
pub(crate) async fn until_file(path: &Path) {
    until(&format!("{} exists", path.display()), || path.exists()).await;
}

/// Waits until `condition` holds. Panics with `what` after [`PATIENCE`].
pub(crate) async fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "timed out waiting until {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
