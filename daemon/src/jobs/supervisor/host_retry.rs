//! Retries of attempts that failed because of the host, which do not count as restarts.
//!
//! A launch that fails because the disk is full or failing, or because the host is out of a resource,
//! is retried with growing delays until the job has waited as long as its job file permits. A run
//! that fails for such a reason, or because its machine went down, holds cores on each attempt, so
//! its retries are limited.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use traind_proto::v1;

use super::RETRY;
use super::restart::{backoff, blamed, elsewhere};
use crate::clock;
use crate::jobs::one_line::one_line;
use crate::jobs::store::{Job, Restart};

/// The most retries, which take more than an hour with the longest delays between them.
const RETRIES_MAX: u32 = 20;

/// Errors of a host that is out of processes, memory or file descriptors.
const EXHAUSTED: [Errno; 4] = [Errno::NOMEM, Errno::AGAIN, Errno::MFILE, Errno::NFILE];

/// Whether the same call may succeed later without any change to the job.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    traind_durable::is_disk_failure(error)
        || Errno::from_io_error(error).is_some_and(|errno| EXHAUSTED.contains(&errno))
}

/// Whether an error at a folder of the daemon, or at a program of the host, is the host's fault, and not that
/// of the user who owns the run folder and put something else there.
pub(super) fn is_of_host(error: &io::Error) -> bool {
    use io::ErrorKind::{InvalidData, InvalidInput, IsADirectory};
    ![InvalidData, InvalidInput, IsADirectory].contains(&error.kind())
}

/// The next attempt after a launch that failed with `message`. Delays start at `delay`, or at
/// `RETRY` if that is longer, and double with each attempt.
pub(super) fn retry_launch(job: &Job, message: &str, delay: Duration) -> Restart {
    let delay = backoff(delay.max(RETRY), job.launch_retries);
    let message = one_line(message);
    Restart {
        reason: format!("its runner could not start: {message}"),
        wait: format!("will be retried after {} s: {message}", delay.as_secs()),
        not_before: clock::now().saturating_add(delay.as_micros() as i64),
        blamed: None,
    }
}

/// The next attempt after a run that a failure of the host ended; `None` after too many such runs
/// without a checkpoint in between.
pub(super) fn retry_run(job: &Job, failure: &v1::Failure, delay: Duration) -> Option<Restart> {
    if job.host_retries >= RETRIES_MAX {
        return None;
    }
    let delay = backoff(delay.max(RETRY), job.host_retries);
    let (line, blamed) = (one_line(&failure.message), blamed(job, failure));
    let elsewhere = elsewhere(job, blamed.as_deref());
    Some(Restart {
        reason: format!("{}: {line}", failure.reason),
        wait: format!("will resume after {} s{elsewhere}: {line}", delay.as_secs()),
        not_before: clock::now().saturating_add(delay.as_micros() as i64),
        blamed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_transient_and_a_missing_permission_is_not() {
        for errno in [Errno::NOSPC, Errno::ROFS, Errno::IO, Errno::MFILE] {
            assert!(is_transient(&errno.into()), "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::NOENT, Errno::NOTDIR] {
            assert!(!is_transient(&errno.into()), "{errno}");
        }
        assert!(!is_transient(&io::Error::other("not from a system call")));
    }
}
