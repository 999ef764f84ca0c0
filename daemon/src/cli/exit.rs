//! Exit codes of `traind`.

use std::process::ExitCode;

use traind_proto::v1::JobState;

use crate::jobs::supervisor::{EXIT_IO_ERROR, EXIT_NOT_STARTED};

/// The exit codes as help shows them: scripts distinguish a failed job from a failed command by the code.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done; a followed job completed
  1    the command failed
  2    invalid usage
  3    the followed job failed
  4    the followed job was cancelled
  130  stopped at Ctrl-C; a job that was followed keeps running";

/// The code of a command that failed; clap itself exits with 2.
pub(super) const FAILED: u8 = 1;
/// The code that shells report for a program killed by this signal.
pub(super) const SIGPIPE: i32 = 128 + 13;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    JobFailed,
    JobCancelled,
    Detached,
    /// The disk of the run folder fails; of the launcher alone.
    DiskFailed,
    /// The host cannot execute the runner: a code of the launcher alone.
    NotStarted,
}

impl Exit {
    /// The exit code of a command that followed a job to this state.
    pub(crate) fn of(state: JobState) -> Exit {
        match state {
            JobState::Failed => Exit::JobFailed,
            JobState::Cancelled => Exit::JobCancelled,
            JobState::Unspecified
            | JobState::Pending
            | JobState::Starting
            | JobState::Running
            | JobState::Cancelling
            | JobState::Completed => Exit::Done,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => FAILED,
            Exit::JobFailed => 3,
            Exit::JobCancelled => 4,
            Exit::Detached => 130,
            Exit::DiskFailed => EXIT_IO_ERROR,
            Exit::NotStarted => EXIT_NOT_STARTED,
        })
    }
}
