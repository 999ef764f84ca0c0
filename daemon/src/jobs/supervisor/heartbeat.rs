//! Notices a runner that lives and gets nowhere.
//!
//! A sign of life is a new event, or another step or phase in what the runner answers on
//! its socket. The service has a thread of its own there, so an answer alone proves that
//! the process runs, not that it trains.

use std::time::{Duration, Instant};

use traind_proto::v1::{Phase, RunnerStatus};
use traind_proto::{reasons, v1};

/// How often to ask.
const PERIOD: Duration = Duration::from_secs(2);
/// How long a runner that answered once may be silent: its process is stopped or its
/// machine out of memory.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Before the first step and while a plugin compiles, nothing moves for long. A download tells of
/// itself as long as it gets on.
const PREPARING_FACTOR: u32 = 6;

/// What there is to see of a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Sign {
    log_offset: u64,
    phase: Phase,
    step: u64,
}

#[derive(Debug)]
pub(super) struct Heartbeat {
    limit: Duration,
    sign: Sign,
    /// When the sign was another for the last time.
    moved: Instant,
    /// When the runner answered for the last time.
    answered: Option<Instant>,
    asked: Option<Instant>,
}

impl Heartbeat {
    /// `limit`: how long one step may take.
    pub(super) fn new(limit: Duration, now: Instant) -> Heartbeat {
        let sign = Sign { log_offset: 0, phase: Phase::Unspecified, step: 0 };
        Heartbeat { limit, sign, moved: now, answered: None, asked: None }
    }

    /// Whether it is time to ask the runner what it does.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.asked.is_none_or(|asked| now >= asked + PERIOD);
        if due {
            self.asked = Some(now);
        }
        due
    }

    /// Takes in what is to be seen: how far the event log was read and which step it told
    /// of, and what the runner answered, if it did.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        (log_offset, logged_step): (u64, u64),
        status: Option<&RunnerStatus>,
    ) -> Option<v1::Failure> {
        let step = self.sign.step.max(logged_step);
        let mut sign = Sign { log_offset, phase: self.sign.phase, step };
        if let Some(status) = status {
            sign = Sign { log_offset, phase: status.phase(), step: status.step };
            self.answered = Some(now);
        }
        if sign != self.sign {
            self.sign = sign;
            self.moved = now;
        }
        let idle = now.saturating_duration_since(self.moved);
        if idle >= self.patience() {
            return Some(self.failure(&format!("did nothing for {} s", idle.as_secs())));
        }
        let silent = self.answered.map(|at| now.saturating_duration_since(at.max(self.moved)));
        let silent = silent.filter(|silent| *silent >= SILENCE_MAX)?;
        Some(self.failure(&format!("has not answered for {} s", silent.as_secs())))
    }

    fn patience(&self) -> Duration {
        let preparing = match self.sign.phase {
            Phase::Compile => true,
            Phase::Fetch => false,
            _ => self.sign.step == 0,
        };
        if preparing { self.limit.saturating_mul(PREPARING_FACTOR) } else { self.limit }
    }

    fn failure(&self, what: &str) -> v1::Failure {
        let phase = self.sign.phase.as_str_name();
        let phase = phase.strip_prefix("PHASE_").unwrap_or(phase).to_lowercase();
        let step = self.sign.step;
        v1::Failure {
            reason: reasons::RUNNER_HUNG.to_owned(),
            message: format!("the runner {what}; it is in phase {phase} after step {step}"),
            step: Some(step),
            ..Default::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(60);

    fn status(phase: Phase, step: u64) -> RunnerStatus {
        RunnerStatus { phase: phase.into(), step, ..Default::default() }
    }

    /// Plays (second, answer) and returns when and of what the runner was found hung.
    fn check(answers: &[(u64, Option<RunnerStatus>)], expect: Option<(u64, &str)>) {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(LIMIT, start);
        let hung = answers.iter().find_map(|(second, answer)| {
            let now = start + Duration::from_secs(*second);
            let failure = heartbeat.observe(now, (10, 0), answer.as_ref())?;
            Some((*second, failure.message))
        });
        assert_eq!(hung.as_ref().map(|(second, text)| (*second, text.as_str())), expect);
    }

    #[test]
    fn a_runner_that_moves_is_never_hung() {
        let answers: Vec<_> =
            (0..100).map(|n| (n * 59, Some(status(Phase::Compute, n + 1)))).collect();
        check(&answers, None);
    }

    #[test]
    fn a_runner_that_stays_in_a_step_is_named_with_it() {
        let stuck = || Some(status(Phase::Collective, 7));
        check(
            &[(1, stuck()), (30, stuck()), (60, stuck()), (61, stuck())],
            Some((61, "the runner did nothing for 60 s; it is in phase collective after step 7")),
        );
    }

    #[test]
    fn compiling_and_preparing_take_their_time() {
        let compiles = || Some(status(Phase::Compile, 7));
        check(&[(0, compiles()), (100, compiles()), (359, compiles())], None);
        check(&[(0, None), (359, None)], None);
        check(
            &[(0, None), (360, None)],
            Some((
                360,
                "the runner did nothing for 360 s; it is in phase unspecified after step 0",
            )),
        );
    }

    #[test]
    fn a_download_that_tells_nothing_is_stuck_and_a_long_one_is_not() {
        let fetches = || Some(status(Phase::Fetch, 0));
        let message = "the runner did nothing for 60 s; it is in phase fetch after step 0";
        check(&[(0, fetches()), (59, fetches()), (60, fetches())], Some((60, message)));
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(LIMIT, start);
        for told in 0..1000 {
            let now = start + Duration::from_secs(30 * told);
            assert!(heartbeat.observe(now, (told, 0), fetches().as_ref()).is_none());
        }
    }

    #[test]
    fn a_runner_that_answers_no_more_is_stopped() {
        let preparing = || Some(status(Phase::Input, 0));
        check(
            &[(0, preparing()), (119, None), (120, None)],
            Some((120, "the runner has not answered for 120 s; it is in phase input after step 0")),
        );
    }
}
