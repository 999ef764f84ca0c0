//! Commands of the runner that answer a request. They end when the user interrupts the command that asks.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, bail};
use rustix::process::{Signal, getpid, kill_process};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Child;
use tokio::runtime::Handle;
use tokio::signal::unix::{self, SignalKind};
use traind_job_file::commands::{PARENT_VARIABLE, last_error};

use crate::host::process::ProcessGroup;

/// The code of a command that a signal ended is this and the signal's number, as shells report it.
const SIGNAL_CODE: u8 = 128;

/// The signals by which a user ends a command. While this exists, none ends the process by itself, so that temporary
/// files are removed.
pub(super) struct Interrupts {
    interrupt: unix::Signal,
    terminate: unix::Signal,
    hang_up: unix::Signal,
    suspend: unix::Signal,
    resume: unix::Signal,
}

/// The error of a command that a signal ended, about which its user needs no message.
#[derive(Debug)]
pub(super) struct Interrupted {
    signal: SignalKind,
}

impl Interrupts {
    pub(super) fn watch() -> anyhow::Result<Interrupts> {
        let watch = |kind| unix::signal(kind).context("watch for signals");
        Ok(Interrupts {
            interrupt: watch(SignalKind::interrupt())?,
            terminate: watch(SignalKind::terminate())?,
            hang_up: watch(SignalKind::hangup())?,
            suspend: watch(SignalKind::from_raw(Signal::TSTP.as_raw()))?,
            resume: watch(SignalKind::from_raw(Signal::CONT.as_raw()))?,
        })
    }

    /// Waits for a signal that ends the command.
    pub(super) async fn next(&mut self) -> Interrupted {
        self.next_with(None).await
    }

    /// Waits for a signal that ends the command, for which `group` works. Ctrl-Z stops the group with the command, and
    /// both continue together.
    async fn next_with(&mut self, group: Option<&ProcessGroup>) -> Interrupted {
        let send = |signal| group.map(|group| group.send(signal));
        loop {
            let signal = tokio::select! {
                _ = self.interrupt.recv() => SignalKind::interrupt(),
                _ = self.terminate.recv() => SignalKind::terminate(),
                _ = self.hang_up.recv() => SignalKind::hangup(),
                _ = self.suspend.recv() => {
                    send(Signal::STOP);
                    // Takes effect on other threads some time later.
                    let _ = kill_process(getpid(), Signal::STOP);
                    continue;
                }
                _ = self.resume.recv() => {
                    send(Signal::CONT);
                    continue;
                }
            };
            return Interrupted { signal };
        }
    }
}

impl Interrupted {
    /// The exit code of the command.
    pub(super) fn code(&self) -> u8 {
        SIGNAL_CODE.saturating_add(self.signal.as_raw_value().unsigned_abs() as u8)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("interrupted")
    }
}

impl std::error::Error for Interrupted {}

/// Runs a command of the runner with a request on its standard input. At a signal the runner is killed with all
/// processes that it started, and the error is [`Interrupted`].
pub(super) async fn answer_of<T: DeserializeOwned>(
    mut runner: Command,
    command: &str,
    request: &impl Serialize,
    interrupts: &mut Interrupts,
) -> anyhow::Result<T> {
    // The terminal's Ctrl-C and Ctrl-Z reach this process alone, which passes them on to the group.
    std::os::unix::process::CommandExt::process_group(&mut runner, 0);
    let started = start(runner, command, request)?;
    let group = ProcessGroup::of(&started.child);
    let mut exchange = std::pin::pin!(exchange(started));
    tokio::select! {
        output = &mut exchange => {
            let output = output?;
            group.release();
            read(&output)
        }
        interrupted = interrupts.next_with(Some(&group)) => {
            drop(group);
            // It writes no more files once it has ended.
            let _ = exchange.await;
            Err(interrupted.into())
        }
    }
}

/// Runs a command of the runner on a thread that may block, without watching for signals.
pub(super) fn blocking_answer_of<T: DeserializeOwned>(
    runner: Command,
    command: &str,
    request: &impl Serialize,
) -> anyhow::Result<T> {
    let output =
        Handle::current().block_on(async { exchange(start(runner, command, request)?).await })?;
    read(&output)
}

/// A runner with its request, which is not written yet.
struct Started {
    child: Child,
    request: Vec<u8>,
    /// The file of its messages, in which it finds what Neuron's compiler and runtime said. Without one they are piped.
    said: Option<File>,
}

fn start(mut runner: Command, command: &str, request: &impl Serialize) -> anyhow::Result<Started> {
    let request = serde_json::to_vec(request).context("write the request")?;
    let program = runner.get_program().to_owned();
    runner.arg(command).env(PARENT_VARIABLE, std::process::id().to_string());
    let said = tempfile::tempfile().ok();
    let messages = said.as_ref().and_then(|said| said.try_clone().ok());
    let messages = messages.map_or_else(Stdio::piped, Stdio::from);
    runner.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(messages);
    let child = tokio::process::Command::from(runner).spawn();
    let child = child.with_context(|| format!("start {}", program.display()))?;
    Ok(Started { child, request, said })
}

async fn exchange(Started { mut child, request, said }: Started) -> anyhow::Result<Output> {
    if let Some(mut input) = child.stdin.take() {
        // A runner that ends early says why.
        let _: io::Result<()> = input.write_all(&request).await;
    }
    let mut output = child.wait_with_output().await.context("wait for the runner")?;
    if let Some(mut said) = said {
        let read = said.rewind().and_then(|()| said.read_to_end(&mut output.stderr));
        read.context("read the runner's messages")?;
    }
    Ok(output)
}

fn read<T: DeserializeOwned>(output: &Output) -> anyhow::Result<T> {
    if output.status.success() {
        return serde_json::from_slice(&output.stdout).context("read the runner's answer");
    }
    if let Some(signal) = output.status.signal() {
        let cause = if signal == 9 { ", as the kernel does when memory runs out" } else { "" };
        bail!("the runner was killed by signal {signal}{cause}");
    }
    let messages = String::from_utf8_lossy(&output.stderr);
    match last_error(&messages) {
        Some(message) => bail!("{message}"),
        None => bail!("the runner ended with {}", output.status),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::process::{Pid, test_kill_process};

    use super::*;

    /// A program in the runner's place, which says by a file that it and a process of its own run.
    fn program(folder: &std::path::Path) -> Command {
        let mut shell = Command::new("sh");
        let script = "sleep 600 & echo $! > started.part && mv started.part started; wait";
        shell.current_dir(folder).args(["-c", script]);
        shell
    }

    #[tokio::test]
    async fn a_signal_ends_the_runner_with_its_own_processes() {
        let folder = tempfile::tempdir().unwrap();
        let mut interrupts = Interrupts::watch().unwrap();
        let started = folder.path().join("started");
        let interrupt = async {
            while !started.exists() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            kill_process(getpid(), Signal::TERM).unwrap();
            std::future::pending::<()>().await;
        };
        let answer = tokio::select! {
            answer = answer_of::<String>(program(folder.path()), "", &"", &mut interrupts) => answer,
            () = interrupt => unreachable!(),
        };
        let interrupted = answer.unwrap_err().downcast::<Interrupted>().unwrap();
        assert_eq!(interrupted.code(), 143);
        let inner: i32 = std::fs::read_to_string(started).unwrap().trim().parse().unwrap();
        let inner = Pid::from_raw(inner).unwrap();
        // It is a zombie until the machine's first process takes its status.
        while test_kill_process(inner).is_ok() && !is_zombie(inner) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn is_zombie(process: Pid) -> bool {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()));
        status.map_or(true, |status| status.contains(") Z "))
    }

    #[tokio::test]
    async fn the_last_line_of_a_runner_that_fails_is_the_error() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "cat > /dev/null; echo a >&2; echo \"$0 b\" >&2; exit 1"]);
        let mut interrupts = Interrupts::watch().unwrap();
        let answer = answer_of::<String>(shell, "embed", &"x", &mut interrupts).await;
        assert_eq!(answer.unwrap_err().to_string(), "embed b");
    }

    #[tokio::test]
    async fn the_last_line_of_a_runner_that_is_killed_is_no_error() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "cat > /dev/null; echo a line >&2; kill -9 $$"]);
        let mut interrupts = Interrupts::watch().unwrap();
        let answer = answer_of::<String>(shell, "embed", &"x", &mut interrupts).await;
        let error = answer.unwrap_err().to_string();
        assert!(error.starts_with("the runner was killed by signal 9"), "{error}");
    }
}
