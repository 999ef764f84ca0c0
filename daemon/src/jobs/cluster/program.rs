//! Runs a cluster's client programs, with the rights of the job's user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::Command;

use super::ClusterError;
use crate::access::account::Account;

/// How long a program may take. `sbatch` waits by itself for a busy scheduler.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The most that a program may print. The user of a job chooses the server that `kubectl` calls, and comments that
/// Slurm repeats.
const OUTPUT_BYTES_MAX: u64 = 16 << 20;
/// The most of it that a message has.
const ERRORS_BYTES_MAX: usize = 8 << 10;
/// Variables of the daemon that the programs need.
const PASSED: [&str; 7] = ["HOME", "LANG", "LOGNAME", "PATH", "SLURM_CONF", "TZ", "USER"];

/// A call of a program.
pub(super) struct Call<'a> {
    pub program: &'static str,
    pub arguments: Vec<OsString>,
    pub account: Option<Account>,
    /// Variables besides those that every call gets.
    pub environment: BTreeMap<OsString, OsString>,
    pub input: &'a str,
}

/// The result of a program that ran.
pub(super) struct Answer {
    pub success: bool,
    pub output: String,
    pub errors: String,
}

impl<'a> Call<'a> {
    /// A call without input.
    pub(super) fn new(program: &'static str, account: Option<Account>) -> Call<'a> {
        let (arguments, environment) = (Vec::new(), BTreeMap::new());
        Call { program, arguments, account, environment, input: "" }
    }

    /// Adds an argument.
    pub(super) fn arg(mut self, argument: impl Into<OsString>) -> Call<'a> {
        self.arguments.push(argument.into());
        self
    }

    /// Runs the program to its end.
    pub(super) async fn run(self) -> Result<Answer, ClusterError> {
        let program = self.program;
        let path = find(program).ok_or(ClusterError::Missing { program })?;
        let run_error = |source| ClusterError::Run { program, source };
        let mut child = self.command(&path).spawn().map_err(run_error)?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let work = async {
            let (input, output, errors) = pipes;
            let feed = async {
                if let Some(mut input) = input {
                    // A program that does not read its input reports why.
                    let _ = input.write_all(self.input.as_bytes()).await;
                }
                Ok(())
            };
            let ((), output, mut errors) = tokio::try_join!(feed, read(output), read(errors))?;
            errors.truncate(errors.floor_char_boundary(ERRORS_BYTES_MAX));
            let success = child.wait().await?.success();
            Ok(Answer { success, output, errors })
        };
        let ended = tokio::time::timeout(TIMEOUT, work).await;
        let ended = ended.map_err(|_| ClusterError::Unavailable {
            program,
            message: format!("did not answer within {} s", TIMEOUT.as_secs()),
        })?;
        ended.map_err(run_error)
    }

    fn command(&self, path: &Path) -> Command {
        let mut command = match self.account {
            Some(account) => {
                let mut command = Command::new("/proc/self/exe");
                command.arg("act-as").arg(format!("--run-as={account}")).arg(path);
                command
            }
            None => Command::new(path),
        };
        let passed = PASSED.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.env_clear().envs(passed).envs(&self.environment);
        command.args(&self.arguments).current_dir("/").kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// Reads what a program prints. Fails if that is too much.
async fn read(pipe: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let mut bytes = Vec::new();
    if let Some(pipe) = pipe {
        pipe.take(OUTPUT_BYTES_MAX + 1).read_to_end(&mut bytes).await?;
    }
    if bytes.len() as u64 > OUTPUT_BYTES_MAX {
        return Err(io::Error::other(format!(
            "it printed more than {} MiB",
            OUTPUT_BYTES_MAX >> 20
        )));
    }
    Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
}

/// Finds a program on the daemon's PATH.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_program_that_prints_without_end_is_given_up() {
        let Err(error) = Call::new("yes", None).run().await else { panic!("it ended") };
        assert_eq!(error.to_string(), "run yes: it printed more than 16 MiB");
        assert!(error.is_transient());
        let answer = Call::new("echo", None).arg("7").run().await.unwrap();
        assert_eq!((answer.success, answer.output.as_str()), (true, "7"));
    }

    #[tokio::test]
    async fn long_errors_are_cut() {
        let script = "printf 'é%.0s' $(seq 9000) >&2";
        let answer = Call::new("sh", None).arg("-c").arg(script).run().await.unwrap();
        assert_eq!(answer.errors.len(), ERRORS_BYTES_MAX);
    }

    /// A program reads and writes more than a pipe holds, in both directions at once.
    #[tokio::test]
    async fn long_input_and_output_do_not_wait_for_one_another() {
        let input = "line\n".repeat(100_000);
        let call = Call { input: &input, ..Call::new("cat", None) };
        assert_eq!(call.run().await.unwrap().output.len(), input.len() - 1);
    }
}
