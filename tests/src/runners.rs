//! The runners of a job without a daemon, one for each of its hosts, all on this machine.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus};
use std::time::Instant;

use traind_proto::event_log::EventLogReader;
use traind_proto::v1::Finished;
use traind_proto::v1::event::Kind;

use crate::processes::{suspend, wake};
use crate::wait::{POLL, timeout};
use crate::{Draft, Host, UNOPTIMIZED, traind};

/// Running runners, by host. Dropping them kills those that are left.
#[derive(Debug)]
pub struct Runners {
    folder: PathBuf,
    processes: Vec<Child>,
}

impl Runners {
    /// Whether `traind plugins install mpi` was run.
    pub fn are_possible() -> bool {
        Runners::mpi_library().is_some_and(|library| library.is_file())
    }

    /// The library that `traind plugins install mpi` installs.
    pub fn mpi_library() -> Option<PathBuf> {
        let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let cache = variable("TRAIND_CACHE_DIR")
            .map(PathBuf::from)
            .or_else(|| Some(PathBuf::from(variable("XDG_CACHE_HOME")?).join("traind")))
            .or_else(|| Some(PathBuf::from(variable("HOME")?).join(".cache/traind")))?;
        let installed =
            fs::read_dir(cache.join("plugins")).ok()?.flatten().map(|entry| entry.path());
        let mut found = installed.filter(|path| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("mpi-"))
        });
        Some(found.next()?.join("lib/libmpi_abi.so.1"))
    }

    /// Starts the runners of `job_file`, which is written into the draft's folder, on `hosts` hosts. They
    /// meet by the ticket in the run folder.
    pub fn start(host: &Host, draft: &Draft, job_file: &str, hosts: usize) -> Runners {
        Runners::start_with(host, draft, job_file, hosts, |_, _| true)
    }

    /// Starts the runners of the hosts for which `prepare`, which may change or replace the command, returns true.
    pub fn start_with(
        host: &Host,
        draft: &Draft,
        job_file: &str,
        hosts: usize,
        prepare: impl Fn(usize, &mut Command) -> bool,
    ) -> Runners {
        let folder = draft.folder().to_owned();
        fs::write(folder.join("job.yaml"), job_file).unwrap();
        let processes = (0..hosts).filter_map(|rank| {
            let log = File::create(folder.join(format!("host-{rank}.log"))).unwrap();
            let mut command = Command::new(runner());
            command.arg("job.yaml").current_dir(&folder).envs([UNOPTIMIZED]);
            command.env("TRAIND_CACHE_DIR", host.path("cache"));
            command.env("TRAIND_TEST_STEP_GATES", host.path("gates"));
            if hosts > 1 {
                command.env("TRAIND_PLUGIN_MPI", Runners::mpi_library().unwrap());
                command.env("TRAIND_HOST_RANK", rank.to_string());
                command.env("TRAIND_HOSTS", hosts.to_string());
                command.env("TRAIND_NODE_NAME", format!("node{rank}"));
            }
            prepare(rank, &mut command).then(|| command.stderr(log).spawn().unwrap())
        });
        let processes = processes.collect();
        Runners { folder, processes }
    }

    /// Lets MPI's `mpirun` start runners of `job_file` as its `options` say. The only process is `mpirun`, whose log is
    /// that of host 0.
    pub fn start_by_mpirun(
        host: &Host,
        draft: &Draft,
        job_file: &str,
        options: &[impl AsRef<OsStr>],
    ) -> Runners {
        let (folder, library) = (draft.folder().to_owned(), Runners::mpi_library().unwrap());
        fs::write(folder.join("job.yaml"), job_file).unwrap();
        let log = File::create(folder.join("host-0.log")).unwrap();
        let mut command = Command::new(library.with_file_name("../bin/mpirun"));
        command.args(options).arg(runner()).arg("job.yaml").current_dir(&folder).stderr(log);
        command.env("TRAIND_CACHE_DIR", host.path("cache")).env("TRAIND_PLUGIN_MPI", library);
        command.envs([UNOPTIMIZED]);
        command.env("TRAIND_TEST_STEP_GATES", host.path("gates"));
        Runners { folder, processes: vec![command.spawn().unwrap()] }
    }

    pub fn pid(&self, rank: usize) -> u32 {
        self.processes[rank].id()
    }

    /// Kills the runner of a host with SIGKILL.
    pub fn kill(&mut self, rank: usize) {
        self.processes[rank].kill().unwrap();
    }

    /// Stops the runner of a host with SIGSTOP, so that it neither computes nor reports.
    pub fn suspend(&self, rank: usize) {
        suspend(self.pid(rank));
    }

    /// Continues a runner that was stopped.
    pub fn wake(&self, rank: usize) {
        wake(self.pid(rank));
    }

    /// Waits for the end of all runners.
    pub async fn ended(&mut self) -> Vec<ExitStatus> {
        let mut statuses = Vec::new();
        for rank in 0..self.processes.len() {
            statuses.push(self.ended_on(rank).await);
        }
        statuses
    }

    /// Waits for the end of the runner of a host.
    pub async fn ended_on(&mut self, rank: usize) -> ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = self.processes[rank].try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < timeout(), "host {rank} runs: {}", self.logs());
            tokio::time::sleep(POLL).await;
        }
    }

    /// Waits until all runners have completed the job.
    pub async fn completed(&mut self) {
        let statuses = self.ended().await;
        assert!(statuses.iter().all(ExitStatus::success), "{statuses:?}\n{}", self.logs());
    }

    /// The last event of a host.
    pub fn finished(&self, rank: usize) -> Finished {
        match self.events(rank).pop() {
            Some(Kind::Finished(finished)) => finished,
            other => panic!("{other:?}\n{}", self.logs()),
        }
    }

    /// All events of a host that works in the job's folder.
    pub fn events(&self, rank: usize) -> Vec<Kind> {
        let mut path = self.folder.join("out/run");
        if !path.exists() {
            // The output is in a bucket.
            let name = self.folder.file_name().unwrap().to_str().unwrap();
            path = self.folder.join(format!("{name}-run"));
        }
        if rank > 0 {
            path = path.join("hosts").join(rank.to_string());
        }
        let events = EventLogReader::open(&path.join("events.log"));
        let events = events.unwrap_or_else(|error| panic!("{error}\n{}", self.logs()));
        let events = events.read_from(0).unwrap();
        events.into_iter().filter_map(|logged| logged.event.kind).collect()
    }

    /// The output of all runners.
    pub fn logs(&self) -> String {
        let log = |rank| {
            let text = fs::read_to_string(self.folder.join(format!("host-{rank}.log"))).ok()?;
            Some(format!("host {rank}:\n{text}"))
        };
        (0..).map_while(log).collect()
    }
}

impl Drop for Runners {
    fn drop(&mut self) {
        for process in &mut self.processes {
            // Most have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

fn runner() -> PathBuf {
    traind().with_file_name("traind-runner")
}
