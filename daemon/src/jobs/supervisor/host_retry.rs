//! Attempts that come to nothing because of the host and not of the job.
//!
//! A launch for which its disk is full or fails, or which finds too little of something for one more
//! process: the job goes back to the queue and is tried again, ever later, until it has waited as
//! long as its job file lets it. A run that meets the same, or ends with its machine: that takes the
//! cores again each time, so it is not tried for ever.

use std::io;
use std::time::Duration;

use rustix::io::Errno;
use traind_proto::v1;

use super::RETRY;
use super::restart::{backoff, first_line};
use crate::clock;
use crate::jobs::store::{Job, Restart};

/// With the longest delays between them, more than an hour.
const RETRIES_MAX: u32 = 20;

/// What a host gets over, or its operator sees to.
const PASSING: [Errno; 9] = [
    Errno::IO,
    Errno::NOSPC,
    Errno::DQUOT,
    Errno::ROFS,
    Errno::STALE,
    Errno::NOMEM,
    Errno::AGAIN,
    Errno::MFILE,
    Errno::NFILE,
];

/// Whether the same call may succeed later, with nothing changed about the job.
pub(crate) fn is_transient(error: &io::Error) -> bool {
    Errno::from_io_error(error).is_some_and(|errno| PASSING.contains(&errno))
}

/// The next try of a launch that failed by `message`. The first one follows after `delay`, but
/// not at once, each later one after twice the time.
pub(super) fn retry_launch(job: &Job, message: &str, delay: Duration) -> Restart {
    let delay = backoff(delay.max(RETRY), job.launch_retries);
    let message = first_line(message);
    Restart {
        reason: format!("its runner could not start: {message}"),
        wait: format!("is tried again after {} s: {message}", delay.as_secs()),
        not_before: clock::now().saturating_add(delay.as_micros() as i64),
    }
}

/// The next try of a run that the host ended; `None` where too many in a row ended so without
/// saving a checkpoint.
pub(super) fn retry_run(job: &Job, failure: &v1::Failure, delay: Duration) -> Option<Restart> {
    if job.host_retries >= RETRIES_MAX {
        return None;
    }
    let delay = backoff(delay.max(RETRY), job.host_retries);
    let line = first_line(&failure.message);
    Some(Restart {
        reason: format!("{}: {line}", failure.reason),
        wait: format!("goes on after {} s: {line}", delay.as_secs()),
        not_before: clock::now().saturating_add(delay.as_micros() as i64),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_transient_and_a_missing_right_does_not() {
        for errno in [Errno::NOSPC, Errno::ROFS, Errno::IO, Errno::MFILE] {
            assert!(is_transient(&errno.into()), "{errno}");
        }
        for errno in [Errno::ACCESS, Errno::NOENT, Errno::NOTDIR] {
            assert!(!is_transient(&errno.into()), "{errno}");
        }
        assert!(!is_transient(&io::Error::other("of no system call")));
    }
}
