//! Restarts of jobs after failures, as their job files request.

use std::time::Duration;

use traind_proto::{reasons, v1};

use crate::clock;
use crate::jobs::one_line::one_line;
use crate::jobs::store::{HOST_FAILURES_MAX, Job, Restart};

/// Reasons of failures that may not recur. All others would only repeat.
const TRANSIENT: &[&str] = &[
    reasons::RUNNER_DIED,
    reasons::RUNNER_HUNG,
    reasons::RUNNER_START_FAILED,
    reasons::RUN_DIRECTORY_FAILED,
    reasons::DEVICE_FAILED,
    reasons::HOST_MEMORY_FULL,
    reasons::OUTPUT_FAILED,
];
/// The longest delay between two attempts.
pub(crate) const DELAY_MAX: Duration = Duration::from_secs(300);

/// The next attempt of `job` after `failure`; `None` if the job is not to be restarted. Delays start
/// at `delay` and double with each restart.
pub(crate) fn restart(job: &Job, failure: &v1::Failure, delay: Duration) -> Option<Restart> {
    let transient = TRANSIENT.contains(&failure.reason.as_str());
    if !transient || job.restarts >= job.max_restarts {
        return None;
    }
    let delay = backoff(delay, job.restarts);
    let (number, max) = (job.restarts + 1, job.max_restarts);
    let (line, blamed) = (one_line(&failure.message), blamed(job, failure));
    let elsewhere = elsewhere(job, blamed.as_deref());
    let seconds = delay.as_secs();
    Some(Restart {
        reason: format!("{}: {line}", failure.reason),
        wait: format!("will be restarted after {seconds} s{elsewhere} (restart {number} of {max})"),
        not_before: clock::now().saturating_add(delay.as_micros() as i64),
        blamed,
    })
}

/// The host of `failure` that is not counted yet: a host that the runner's last event names was counted with
/// that event.
pub(super) fn blamed(job: &Job, failure: &v1::Failure) -> Option<String> {
    let reported = job.finished.as_ref().and_then(|finished| finished.failure.as_ref());
    let is_counted = reported.is_some_and(|reported| reported.host.is_some());
    failure.host.clone().filter(|_| !is_counted)
}

/// Names the hosts that the next attempt avoids, for display.
pub(super) fn elsewhere(job: &Job, blamed: Option<&str>) -> String {
    let mut job = job.clone();
    if let Some(host) = blamed {
        job.blame_host(host);
    }
    match job.avoided_hosts().as_slice() {
        [] => String::new(),
        [host] => format!(" on other hosts than {host}, which failed {HOST_FAILURES_MAX} times"),
        hosts => {
            let hosts = hosts.join(", ");
            format!(" on other hosts than {hosts}, which failed {HOST_FAILURES_MAX} times each")
        }
    }
}

/// Doubles `delay` for each of `attempts`, up to [`DELAY_MAX`].
pub(super) fn backoff(delay: Duration, attempts: u32) -> Duration {
    delay.saturating_mul(1 << attempts.min(16)).min(DELAY_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jobs::store::{NewJob, Store};

    fn job(restarts: u32) -> Job {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(&folder.path().join("traind.db")).unwrap();
        let new = NewJob { id: "a".into(), max_restarts: 12, ..NewJob::default() };
        Job { restarts, ..store.create(&new).unwrap() }
    }

    fn check(reason: &str, restarts: u32, expect: Option<&str>) {
        let failure = v1::Failure { reason: reason.into(), ..Default::default() };
        let restart = restart(&job(restarts), &failure, Duration::from_secs(5));
        assert_eq!(restart.map(|restart| restart.wait).as_deref(), expect);
    }

    #[test]
    fn transient_failures_are_retried_with_growing_delays() {
        check("RUNNER_DIED", 0, Some("will be restarted after 5 s (restart 1 of 12)"));
        check("HOST_MEMORY_FULL", 0, Some("will be restarted after 5 s (restart 1 of 12)"));
        check("DEVICE_FAILED", 2, Some("will be restarted after 20 s (restart 3 of 12)"));
        check("RUNNER_HUNG", 11, Some("will be restarted after 300 s (restart 12 of 12)"));
        check("RUNNER_DIED", 12, None);
    }

    #[test]
    fn a_host_that_failed_three_times_is_named() {
        let died = v1::Failure {
            reason: "RUNNER_DIED".into(),
            host: Some("n1".into()),
            ..Default::default()
        };
        let mut job = job(0);
        for _ in 0..2 {
            let again = restart(&job, &died, Duration::ZERO).unwrap();
            assert!(!again.wait.contains("n1"), "{}", again.wait);
            job.blame_host(&again.blamed.unwrap());
        }
        let again = restart(&job, &died, Duration::ZERO).unwrap();
        let expect = "after 0 s on other hosts than n1, which failed 3 times (restart 1 of 12)";
        assert!(again.wait.ends_with(expect), "{}", again.wait);
        // The runner's last event was counted when it was stored.
        job.finished = Some(v1::Finished { failure: Some(died.clone()), ..Default::default() });
        assert_eq!(restart(&job, &died, Duration::ZERO).unwrap().blamed, None);
    }

    #[test]
    fn permanent_failures_are_not_retried() {
        check("DATA_ROW_INVALID", 0, None);
        check("LOSS_NOT_FINITE", 0, None);
        check("COMPILE_FAILED", 0, None);
    }
}
