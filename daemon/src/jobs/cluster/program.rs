//! Runs a cluster's client programs, with the rights of the job's user.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::ClusterError;
use crate::access::account::Account;

/// How long a program may take. `sbatch` waits by itself for a busy scheduler.
const TIMEOUT: Duration = Duration::from_secs(60);
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
        if let Some(mut input) = child.stdin.take() {
            // A program that does not read its input reports why.
            let _ = input.write_all(self.input.as_bytes()).await;
        }
        let ended = tokio::time::timeout(TIMEOUT, child.wait_with_output()).await;
        let ended = ended.map_err(|_| ClusterError::Unavailable {
            program,
            message: format!("did not answer within {} s", TIMEOUT.as_secs()),
        })?;
        let ended = ended.map_err(run_error)?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        let (output, errors) = (text(&ended.stdout), text(&ended.stderr));
        Ok(Answer { success: ended.status.success(), output, errors })
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

/// Finds a program on the daemon's PATH.
pub(super) fn find(program: &str) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(program)).find(|path| path.is_file())
}
