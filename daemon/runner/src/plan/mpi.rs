//! `traind-runner measure-mpi`: measures MPI between two processes of this host, for predictions of jobs on
//! several hosts.
//!
//! The processes are two more of this program, since a process that MPI fails in may end. They exchange data
//! by TCP, as those of two hosts do, but over no wire.

use std::io::Read as _;
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use traind_job_file::commands::MpiCost;
use traind_mpi::{Cost, Process, installed_library};
use traind_rendezvous::serve_pmi_on_host;

pub(crate) const MEASURE_MPI: &str = "measure-mpi";
/// Marks the processes that exchange data; its value is their number.
const RANK: &str = "TRAIND_MEASURED_RANK";
const PROCESSES: usize = 2;
/// Variables by which the communication libraries of MPI, UCX and libfabric, use TCP: left to themselves, processes of
/// one host share memory.
const BY_TCP: [(&str, &str); 2] = [("UCX_TLS", "tcp,self"), ("FI_PROVIDER", "tcp")];
const TIMEOUT: Duration = Duration::from_secs(20);
const ANSWER_BYTES_MAX: u64 = 4096;
const POLL: Duration = Duration::from_millis(5);

/// Writes the cost to standard output, as JSON.
pub(crate) fn measure() -> anyhow::Result<()> {
    let cost = match std::env::var(RANK) {
        Ok(rank) => measure_as(rank.parse().context("read the process's number")?)?,
        Err(_) => measure_between_processes()?,
    };
    serde_json::to_writer(std::io::stdout().lock(), &cost).context("write the answer")
}

fn measure_as(rank: usize) -> anyhow::Result<MpiCost> {
    let process = Process { rank, size: PROCESSES, group: 0, pmi: None };
    let Cost { latency_seconds, bytes_per_second } = Cost::measure(&installed_library(), process)?;
    Ok(MpiCost { latency_seconds, bytes_per_second })
}

fn measure_between_processes() -> anyhow::Result<MpiCost> {
    let connections = serve_pmi_on_host(PROCESSES as u32)?.into_iter().enumerate();
    let spawn = |(rank, connection)| spawn(rank, OwnedFd::from(connection));
    let mut processes = Processes(connections.map(spawn).collect::<Result<_, _>>()?);
    processes.wait()?;
    let mut answer = String::new();
    let output = processes.0[0].stdout.take().context("read the first process's answer")?;
    output.take(ANSWER_BYTES_MAX).read_to_string(&mut answer)?;
    serde_json::from_str(&answer).context("parse the first process's answer")
}

/// MPI finds its process manager at the file descriptor 0.
fn spawn(rank: usize, connection: OwnedFd) -> anyhow::Result<Child> {
    let program = std::env::current_exe().context("find this program")?;
    let mut command = Command::new(program);
    command.arg(MEASURE_MPI).env(RANK, rank.to_string());
    command.env("PMI_FD", "0").env("PMI_RANK", rank.to_string());
    command.env("PMI_SIZE", PROCESSES.to_string()).env_remove("PMI_PORT");
    for (name, value) in BY_TCP {
        if std::env::var_os(name).is_none() {
            command.env(name, value);
        }
    }
    command.stdin(Stdio::from(connection)).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().context("start a process")
}

/// Processes that are killed when this is dropped.
struct Processes(Vec<Child>);

impl Processes {
    /// Waits until all have succeeded.
    fn wait(&mut self) -> anyhow::Result<()> {
        let start = Instant::now();
        loop {
            let ended = self.0.iter_mut().map(Child::try_wait).collect::<Result<Vec<_>, _>>()?;
            let has_failed = |status: &Option<ExitStatus>| status.is_some_and(|it| !it.success());
            if let Some(failed) = ended.iter().position(has_failed) {
                bail!("{}", self.last_words(failed));
            }
            if ended.iter().all(Option::is_some) {
                return Ok(());
            }
            if start.elapsed() > TIMEOUT {
                bail!("took longer than {} s", TIMEOUT.as_secs());
            }
            std::thread::sleep(POLL);
        }
    }

    /// The first line that a process that has ended wrote about its failure.
    fn last_words(&mut self, rank: usize) -> String {
        let mut text = String::new();
        if let Some(errors) = self.0[rank].stderr.take() {
            // Without its words, the failure has no reason.
            let _ = errors.take(ANSWER_BYTES_MAX).read_to_string(&mut text);
        }
        text.lines().next().unwrap_or("a process of MPI failed").to_owned()
    }
}

impl Drop for Processes {
    fn drop(&mut self) {
        for process in &mut self.0 {
            // Most have ended.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}
