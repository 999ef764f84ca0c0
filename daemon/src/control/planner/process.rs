//! The process that plans, whose answer is bounded in time and size.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

use crate::access::account::Account;
use crate::host::pipes::{beginning_blocking, end_blocking};

const POLL: Duration = Duration::from_millis(1);
/// A plan takes a few hundred bytes.
const ANSWER_BYTES_MAX: u64 = 64 * 1024;
/// The last bytes that a planner wrote about itself.
const SAID_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("start the planner: {0}")]
    Start(io::Error),
    /// The model's config rules out a key of the job file.
    #[error("{field}: {description}")]
    Violation { field: String, description: String },
    #[error("{0}")]
    Refused(String),
    /// A signal ended the planner, as when it runs out of the memory that it may take.
    #[error(
        "the planner died (signal {signal}){}: does the model's config.json have the sizes that you expect?",
        .said.is_empty().then(String::new).unwrap_or_else(|| format!(": {}", .said))
    )]
    Died { signal: i32, said: String },
    #[error("the planner took longer than {} s", .0.as_secs())]
    Timeout(Duration),
    #[error("parse the plan: {0}")]
    Answer(#[from] serde_json::Error),
}

/// The planner with its user and its environment.
pub(super) fn planner(
    account: Option<Account>,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Command {
    let mut command = Command::new("/proc/self/exe");
    command.arg("planner").args(account.map(|account| format!("--run-as={account}")));
    command.env_clear().envs(environment).current_dir("/");
    command
}

/// Runs a planner to its end. Returns what it wrote.
pub(super) fn answer(
    command: &mut Command,
    request: &[u8],
    most: Duration,
) -> Result<Vec<u8>, PlanError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(PlanError::Start)?;
    if let Some(mut input) = child.stdin.take() {
        // A planner that does not read its input reports why when it exits.
        let _ = input.write_all(request);
    }
    let (out, err) = (child.stdout.take(), child.stderr.take());
    // A plugin may write more into its log than a pipe holds.
    let (ended, out, err) = std::thread::scope(|scope| {
        let out = scope.spawn(|| beginning_blocking(out, ANSWER_BYTES_MAX));
        let err = scope.spawn(|| end_blocking(err, SAID_BYTES_MAX));
        (wait(&mut child, most), read_by(out), read_by(err))
    });
    let status = ended?;
    let said = String::from_utf8_lossy(&err).trim().to_owned();
    match status.signal() {
        Some(signal) => Err(PlanError::Died { signal, said }),
        None if status.success() => Ok(out),
        None if said.is_empty() => Err(PlanError::Refused(format!("the planner failed: {status}"))),
        None => Err(PlanError::Refused(said)),
    }
}

/// The bytes that a thread has read; none if it could not.
fn read_by(thread: ScopedJoinHandle<'_, io::Result<Vec<u8>>>) -> Vec<u8> {
    thread.join().ok().and_then(Result::ok).unwrap_or_default()
}

/// Waits for the planner.
fn wait(child: &mut Child, most: Duration) -> Result<ExitStatus, PlanError> {
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().map_err(PlanError::Start)? {
            return Ok(status);
        }
        if start.elapsed() > most {
            let _ = child.kill();
            let _ = child.wait();
            return Err(PlanError::Timeout(most));
        }
        std::thread::sleep(POLL);
    }
}
