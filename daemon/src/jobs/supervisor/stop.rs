//! Stopping a runner: first by a signal, and after its grace period by SIGKILL.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

/// How long a runner may take to exit after its last event.
const EXIT_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between kills. A process may hang in the kernel, where no signal reaches it, and
/// finding all processes of a job is expensive.
const KILL_INTERVAL: Duration = Duration::from_secs(5);

/// Time until a signal is sent again that a cluster did not take.
const SIGNAL_INTERVAL: Duration = Duration::from_secs(1);

/// Requests to stop one runner; clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct StopRequests {
    /// Cancelled when the job is to end.
    pub cancel: CancellationToken,
    /// Set, with the reason, when the job has to give up its cores for now.
    pub preempt: Arc<OnceLock<String>>,
}

/// The next step of stopping a runner.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum StopAction {
    None,
    /// Send a signal that the runner handles.
    Signal,
    Kill,
}

/// Progress of stopping one runner.
#[derive(Debug)]
pub(super) struct Stop {
    grace_period: Duration,
    /// When it was first signalled, or should have been.
    signalled: Option<Instant>,
    /// When to signal again, if the last signal did not arrive.
    repeated: Option<Instant>,
    finished: Option<Instant>,
    killed: Option<Instant>,
}

impl Stop {
    pub(super) fn new(grace_period: Duration) -> Stop {
        Stop { grace_period, signalled: None, repeated: None, finished: None, killed: None }
    }

    /// Whether the runner had to be killed.
    pub(super) fn killed(&self) -> bool {
        self.killed.is_some()
    }

    /// Notes that the signal of `now` did not arrive.
    pub(super) fn repeat_signal(&mut self, now: Instant) {
        self.repeated = Some(now + SIGNAL_INTERVAL);
    }

    /// Returns what to do at `now`. `requested`: the runner is to stop. `finished`: it wrote its
    /// last event.
    pub(super) fn next_action(
        &mut self,
        now: Instant,
        requested: bool,
        finished: bool,
    ) -> StopAction {
        if finished {
            self.finished.get_or_insert(now);
        }
        if requested && self.signalled.is_none() {
            self.signalled = Some(now);
            return StopAction::Signal;
        }
        let passed = |since: Option<Instant>, limit| since.is_some_and(|at| now >= at + limit);
        let overdue =
            passed(self.signalled, self.grace_period) || passed(self.finished, EXIT_TIMEOUT);
        if !overdue && self.repeated.take_if(|at| now >= *at).is_some() {
            return StopAction::Signal;
        }
        if !overdue || self.killed.is_some_and(|at| now < at + KILL_INTERVAL) {
            return StopAction::None;
        }
        self.killed = Some(now);
        StopAction::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_signalled_once_and_killed_after_its_grace_period() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut stop = Stop::new(Duration::from_secs(30));
        assert_eq!(stop.next_action(after(0), false, false), StopAction::None);
        assert_eq!(stop.next_action(after(1), true, false), StopAction::Signal);
        assert_eq!(stop.next_action(after(30), true, false), StopAction::None);
        assert_eq!(stop.next_action(after(31), true, false), StopAction::Kill);
        assert!(stop.killed());
        let kills = (310..410)
            .map(|tenth| start + Duration::from_millis(100 * tenth))
            .filter(|now| stop.next_action(*now, true, false) == StopAction::Kill)
            .count();
        assert_eq!(kills, 1, "besides the one above, within ten seconds");
    }

    #[test]
    fn a_signal_that_did_not_arrive_is_repeated() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut stop = Stop::new(Duration::from_secs(30));
        assert_eq!(stop.next_action(after(0), true, false), StopAction::Signal);
        stop.repeat_signal(after(0));
        assert_eq!(stop.next_action(after(0), true, false), StopAction::None);
        assert_eq!(stop.next_action(after(2), true, false), StopAction::Signal);
        assert_eq!(stop.next_action(after(3), true, false), StopAction::None, "it arrived");
        stop.repeat_signal(after(3));
        assert_eq!(stop.next_action(after(31), true, false), StopAction::Kill);
    }

    #[test]
    fn a_runner_that_does_not_exit_after_its_last_event_is_killed() {
        let start = Instant::now();
        let mut stop = Stop::new(Duration::from_secs(30));
        assert_eq!(stop.next_action(start, false, true), StopAction::None);
        assert_eq!(stop.next_action(start + EXIT_TIMEOUT, false, true), StopAction::Kill);
    }
}
