//! What `traind` exits with.

use std::process::ExitCode;

use traind_proto::v1::JobState;

use crate::jobs::supervisor::EXIT_IO_ERROR;

/// Part of the interface: scripts tell a failed job from a failed command by it.
pub(crate) const HELP: &str = "\
Exit codes:
  0    done; a followed job completed
  1    the command failed
  2    wrong usage
  3    the followed job failed
  4    the followed job was cancelled
  130  stopped following at Ctrl-C; the job goes on";

/// As shells tell of a program that was killed by this signal.
pub(super) const SIGPIPE: i32 = 128 + 13;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    JobFailed,
    JobCancelled,
    Detached,
    /// Of the launcher alone: the disk of the run folder takes nothing.
    DiskFailed,
}

impl Exit {
    /// What a job's end means for the command that followed it.
    pub(crate) fn of(state: JobState) -> Exit {
        match state {
            JobState::Failed => Exit::JobFailed,
            JobState::Cancelled => Exit::JobCancelled,
            _ => Exit::Done,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1, // clap itself exits with 2
            Exit::JobFailed => 3,
            Exit::JobCancelled => 4,
            Exit::Detached => 130,
            Exit::DiskFailed => EXIT_IO_ERROR,
        })
    }
}
