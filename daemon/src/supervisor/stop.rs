//! Ending a runner: first asked, after its grace period killed.

use std::time::{Duration, Instant};

/// How long a runner may take to exit after its last event.
const LINGER: Duration = Duration::from_secs(10);

/// How often to insist: a process may hang in the kernel for long, where no signal reaches it, and
/// looking for all that belongs to it takes time.
const INSIST: Duration = Duration::from_secs(5);

/// What to do to the runner now.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Press {
    Nothing,
    Ask,
    Kill,
}

/// How far the pressure on a runner has gone.
#[derive(Debug)]
pub(super) struct Stop {
    grace_period: Duration,
    asked: Option<Instant>,
    finished: Option<Instant>,
    killed: Option<Instant>,
}

impl Stop {
    pub(super) fn new(grace_period: Duration) -> Stop {
        Stop { grace_period, asked: None, finished: None, killed: None }
    }

    /// Whether it had to be killed.
    pub(super) fn killed(&self) -> bool {
        self.killed.is_some()
    }

    /// `wanted`: somebody asked for the end. `finished`: the runner wrote its last event.
    pub(super) fn press(&mut self, now: Instant, wanted: bool, finished: bool) -> Press {
        if finished {
            self.finished.get_or_insert(now);
        }
        if wanted && self.asked.is_none() {
            self.asked = Some(now);
            return Press::Ask;
        }
        let overdue = |since: Option<Instant>, limit| since.is_some_and(|at| now >= at + limit);
        let kill = overdue(self.asked, self.grace_period) || overdue(self.finished, LINGER);
        if !kill || self.killed.is_some_and(|at| now < at + INSIST) {
            return Press::Nothing;
        }
        self.killed = Some(now);
        Press::Kill
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runner_is_asked_once_and_killed_after_its_grace_period() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let mut stop = Stop::new(Duration::from_secs(30));
        assert_eq!(stop.press(after(0), false, false), Press::Nothing);
        assert_eq!(stop.press(after(1), true, false), Press::Ask);
        assert_eq!(stop.press(after(30), true, false), Press::Nothing);
        assert_eq!(stop.press(after(31), true, false), Press::Kill);
        assert!(stop.killed());
        let presses = (310..410).map(|tenth| start + Duration::from_millis(100 * tenth));
        let kills = presses.filter(|now| stop.press(*now, true, false) == Press::Kill);
        assert_eq!(kills.count(), 1, "beside the one above, in ten seconds");
    }

    #[test]
    fn a_runner_that_does_not_leave_after_its_last_word_is_killed() {
        let start = Instant::now();
        let mut stop = Stop::new(Duration::from_secs(30));
        assert_eq!(stop.press(start, false, true), Press::Nothing);
        assert_eq!(stop.press(start + LINGER, false, true), Press::Kill);
    }
}
