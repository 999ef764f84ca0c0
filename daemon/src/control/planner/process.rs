//! The process that plans, whose answer is bounded in time and size.

use std::ffi::OsString;
use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
use traind_job_file::commands::PlanViolation;

use crate::access::account::Account;
use crate::host::meter::Meter;

/// How long a wait for the pipes takes at most, after which the planner may have exited.
const POLL: Timespec = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
/// Bytes that are read at a time, and the most that a pipe holds.
const CHUNK: usize = 8 << 10;
const PIPE_BYTES_MAX: usize = 1 << 20;
/// A plan takes a few hundred bytes.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// The exit code of a Rust program that panics.
const PANICKED: i32 = 101;
/// The last bytes that a planner wrote about itself.
const SAID_BYTES_MAX: usize = 64 * 1024;

#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    #[error("start the planner: {0}")]
    Start(io::Error),
    /// The model's config rules out a key of the job file.
    #[error("{}", .0.iter().map(|it| format!("{}: {}", it.field, it.description)).collect::<Vec<_>>().join("; "))]
    Violations(Vec<PlanViolation>),
    #[error("{0}")]
    Refused(String),
    /// A signal ended the planner, as when it runs out of the memory that it may take.
    #[error(
        "the planner died (signal {signal}){}: does the model's config.json have the sizes that you expect?",
        .said.is_empty().then(String::new).unwrap_or_else(|| format!(": {}", .said))
    )]
    Died { signal: i32, said: String },
    /// The planner panicked, as by sizes whose product no number has.
    #[error(
        "the planner failed: {0}: does the model's config.json have the sizes that you expect?"
    )]
    Panicked(String),
    #[error(
        "the planner took longer than {} s: try again when the host is less busy, or name the mesh in place of comparing \
         all (without --auto or `parallel: auto`)",
        .0.as_secs()
    )]
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

/// Runs a planner to its end, and adds its processor time to `meter`. Returns what it wrote. The planner's user can
/// stop it, and hold its pipes open, so that nothing is waited for beyond the deadline.
pub(super) fn answer(
    command: &mut Command,
    request: &[u8],
    most: Duration,
    meter: &Meter,
) -> Result<Vec<u8>, PlanError> {
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(PlanError::Start)?;
    let metering = meter.of_process(Some(child.id()));
    let exchanged = Exchange::with(&mut child, request).and_then(|exchange| {
        let exchanged = exchange.until_exit(&child, most)?;
        if exchanged.is_none() {
            let _ = child.kill();
        }
        Ok(exchanged)
    });
    // The kernel keeps the time of a process until it is waited for.
    drop(metering);
    let status = child.wait();
    let ended = exchanged.and_then(|exchanged| Ok((exchanged, status?)));
    let (Some(Exchange { out, err, .. }), status) = ended.map_err(PlanError::Start)? else {
        return Err(PlanError::Timeout(most));
    };
    let said = String::from_utf8_lossy(&err).trim().to_owned();
    match status.signal() {
        Some(signal) => Err(PlanError::Died { signal, said }),
        None if status.success() => Ok(out),
        None if status.code() == Some(PANICKED) => Err(PlanError::Panicked(said)),
        None if said.is_empty() => Err(PlanError::Refused(format!("the planner failed: {status}"))),
        None => Err(PlanError::Refused(said)),
    }
}

/// The daemon's ends of a planner's pipes, none of which blocks, and what went through them.
struct Exchange<'a> {
    stdin: Option<ChildStdin>,
    /// The part of the request that is not written yet.
    request: &'a [u8],
    stdout: Option<ChildStdout>,
    out: Vec<u8>,
    stderr: Option<ChildStderr>,
    err: Vec<u8>,
}

impl<'a> Exchange<'a> {
    fn with(child: &mut Child, request: &'a [u8]) -> io::Result<Exchange<'a>> {
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let ends = [
            stdin.as_ref().map(AsFd::as_fd),
            stdout.as_ref().map(AsFd::as_fd),
            stderr.as_ref().map(AsFd::as_fd),
        ];
        for end in ends.into_iter().flatten() {
            fcntl_setfl(end, fcntl_getfl(end)? | OFlags::NONBLOCK)?;
        }
        Ok(Exchange { stdin, request, stdout, out: Vec::new(), stderr, err: Vec::new() })
    }

    /// Exchanges data until the planner exits. Returns `None` if that takes longer.
    fn until_exit(mut self, child: &Child, most: Duration) -> io::Result<Option<Self>> {
        let start = Instant::now();
        while start.elapsed() <= most {
            let has_exited = has_exited(child)?;
            // What it wrote before it exited is in the pipes.
            self.exchange();
            if has_exited {
                return Ok(Some(self));
            }
            self.wait()?;
        }
        Ok(None)
    }

    /// Writes and reads what the pipes take and have.
    fn exchange(&mut self) {
        if let Some(stdin) = &mut self.stdin {
            match stdin.write(self.request) {
                Ok(written) => self.request = &self.request[written..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // A planner that does not read its input reports why when it exits.
                Err(_) => self.request = &[],
            }
        }
        self.stdin.take_if(|_| self.request.is_empty());
        read(&mut self.stdout, |bytes| {
            let left = ANSWER_BYTES_MAX.saturating_sub(self.out.len());
            self.out.extend_from_slice(&bytes[..bytes.len().min(left)]);
        });
        read(&mut self.stderr, |bytes| {
            self.err.extend_from_slice(bytes);
            self.err.drain(..self.err.len().saturating_sub(SAID_BYTES_MAX));
        });
    }

    /// Waits a moment for the pipes.
    fn wait(&self) -> io::Result<()> {
        let mut ends: Vec<PollFd<'_>> = Vec::new();
        ends.extend(self.stdin.as_ref().map(|end| PollFd::new(end, PollFlags::OUT)));
        ends.extend(self.stdout.as_ref().map(|end| PollFd::new(end, PollFlags::IN)));
        ends.extend(self.stderr.as_ref().map(|end| PollFd::new(end, PollFlags::IN)));
        match poll(&mut ends, Some(&POLL)) {
            Err(error) if error != Errno::INTR => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// Whether the process has exited; it can still be waited for.
fn has_exited(child: &Child) -> io::Result<bool> {
    let Some(pid) = Pid::from_raw(child.id().cast_signed()) else { return Ok(true) };
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    Ok(waitid(WaitId::Pid(pid), options)?.is_some())
}

/// Reads at most what a pipe can hold. A pipe that ends is dropped.
fn read(pipe: &mut Option<impl Read>, mut keep: impl FnMut(&[u8])) {
    let mut chunk = [0; CHUNK];
    for _ in 0..PIPE_BYTES_MAX / CHUNK {
        let Some(open) = pipe else { return };
        match open.read(&mut chunk) {
            Ok(bytes @ 1..) => keep(&chunk[..bytes]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => return,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => *pipe = None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(60);

    fn run(script: &str, request: &[u8], most: Duration) -> Result<Vec<u8>, PlanError> {
        answer(Command::new("sh").args(["-c", script]), request, most, &Meter::default())
    }

    #[test]
    fn the_processor_time_of_planners_is_metered_however_they_end() {
        let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i + 1)); done";
        for (end, most) in [
            ("", MOST),
            ("exit 3", MOST),
            ("kill -9 $$", MOST),
            ("sleep 99", Duration::from_secs(3)),
        ] {
            let meter = Meter::default();
            let script = format!("{busy}; {end}");
            let _ = answer(Command::new("sh").args(["-c", &script]), b"", most, &meter);
            assert!(meter.time() > Duration::from_millis(60), "{end}: {:?}", meter.time());
        }
    }

    #[test]
    fn more_than_pipes_hold_is_exchanged_and_a_failure_says_why() {
        let request = vec![b'x'; 1 << 20];
        assert_eq!(run("wc -c", &request, MOST).unwrap(), b"1048576\n");
        let cut = run("cat", &request, MOST).unwrap();
        assert_eq!(cut, request[..ANSWER_BYTES_MAX]);
        let refused = run("cat >&2; echo last >&2; exit 3", &request, MOST).unwrap_err();
        let PlanError::Refused(said) = refused else { panic!("{refused}") };
        assert!(said.ends_with("xlast") && said.len() < SAID_BYTES_MAX, "{}", said.len());
        let panicked = run("echo overflow >&2; exit 101", &[], MOST).unwrap_err();
        assert!(matches!(&panicked, PlanError::Panicked(said) if said == "overflow"), "{panicked}");
        let died = run("echo gone >&2; kill -9 $$", &request, MOST).unwrap_err();
        assert!(matches!(&died, PlanError::Died { signal: 9, said } if said == "gone"), "{died}");
    }

    /// A thread of the daemon was lost with each: in the write of a long request, or in reads of pipes that another
    /// process holds open. Without threads, nobody is served.
    #[test]
    fn a_planner_that_its_user_stops_or_whose_pipes_are_held_open_is_given_up() {
        let request = vec![b'x'; 1 << 20];
        let brief = Duration::from_millis(50);
        let stopped = run("kill -STOP $$", &request, brief).unwrap_err();
        assert!(matches!(stopped, PlanError::Timeout(_)), "{stopped}");
        let folder = tempfile::tempdir().unwrap();
        let pid = folder.path().join("pid");
        let held = format!("sleep 600 & echo $! > {}; echo plan", pid.display());
        let answered = run(&held, &request, MOST);
        let pid = std::fs::read_to_string(pid).unwrap();
        assert!(Command::new("kill").arg(pid.trim()).status().unwrap().success());
        assert_eq!(answered.unwrap(), b"plan\n");
    }
}
