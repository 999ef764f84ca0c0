//! Detects a runner that is alive but makes no progress.
//!
//! Progress is a new event, or a change of step or phase in the runner's status. An answer on its
//! own proves only that the process runs, since the status service has a separate thread.

use std::time::{Duration, Instant};

use traind_proto::v1::{Phase, RunnerStatus};
use traind_proto::{reasons, v1};

/// How often the status is queried.
const PERIOD: Duration = Duration::from_secs(2);
/// How long a runner that has answered before may not answer, as when its process is stopped or its
/// machine out of memory.
const SILENCE_MAX: Duration = Duration::from_secs(120);
/// Factor of the limit before the first step and while a plugin compiles, which may take long
/// without visible progress. Downloads are excluded, since they report progress.
const PREPARING_FACTOR: u32 = 6;

/// The visible progress of a runner.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Progress {
    log_offset: u64,
    phase: Phase,
    step: u64,
}

#[derive(Debug)]
pub(super) struct Heartbeat {
    limit: Duration,
    progress: Progress,
    /// Time of the last progress.
    moved: Instant,
    /// Time of the last answer.
    answered: Option<Instant>,
    asked: Option<Instant>,
}

impl Heartbeat {
    /// `limit`: how long one step may take.
    pub(super) fn new(limit: Duration, now: Instant) -> Heartbeat {
        let progress = Progress { log_offset: 0, phase: Phase::Unspecified, step: 0 };
        Heartbeat { limit, progress, moved: now, answered: None, asked: None }
    }

    /// Whether it is time to query the status.
    pub(super) fn is_due(&mut self, now: Instant) -> bool {
        let due = self.asked.is_none_or(|asked| now >= asked + PERIOD);
        if due {
            self.asked = Some(now);
        }
        due
    }

    /// Updates the progress from the offset and step of the event log and from the runner's status,
    /// if it answered. Returns a failure if the runner hangs.
    pub(super) fn observe(
        &mut self,
        now: Instant,
        log_offset: u64,
        logged_step: u64,
        status: Option<&RunnerStatus>,
    ) -> Option<v1::Failure> {
        let step = self.progress.step.max(logged_step);
        let mut progress = Progress { log_offset, phase: self.progress.phase, step };
        if let Some(status) = status {
            progress = Progress { log_offset, phase: status.phase(), step: status.step };
            self.answered = Some(now);
        }
        if progress != self.progress {
            self.progress = progress;
            self.moved = now;
        }
        let idle = now.saturating_duration_since(self.moved);
        if idle >= self.limit() {
            return Some(self.failure(&format!("made no progress for {} s", idle.as_secs())));
        }
        let silent = self.answered.map(|at| now.saturating_duration_since(at.max(self.moved)));
        let silent = silent.filter(|silent| *silent >= SILENCE_MAX)?;
        Some(self.failure(&format!("has not answered for {} s", silent.as_secs())))
    }

    fn limit(&self) -> Duration {
        let preparing = match self.progress.phase {
            Phase::Compile => true,
            Phase::Fetch => false,
            _ => self.progress.step == 0,
        };
        if preparing { self.limit.saturating_mul(PREPARING_FACTOR) } else { self.limit }
    }

    fn failure(&self, what: &str) -> v1::Failure {
        let phase = self.progress.phase.as_str_name();
        let phase = phase.strip_prefix("PHASE_").unwrap_or(phase).to_lowercase();
        let step = self.progress.step;
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

    /// Feeds answers at the given seconds, and compares when and why the runner counts as hung.
    fn check(answers: &[(u64, Option<RunnerStatus>)], expect: Option<(u64, &str)>) {
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(LIMIT, start);
        let hung = answers.iter().find_map(|(second, answer)| {
            let now = start + Duration::from_secs(*second);
            let failure = heartbeat.observe(now, 10, 0, answer.as_ref())?;
            Some((*second, failure.message))
        });
        assert_eq!(hung.as_ref().map(|(second, text)| (*second, text.as_str())), expect);
    }

    #[test]
    fn a_runner_with_progress_is_never_hung() {
        let answers: Vec<_> =
            (0..100).map(|n| (n * 59, Some(status(Phase::Compute, n + 1)))).collect();
        check(&answers, None);
    }

    #[test]
    fn a_runner_that_hangs_in_a_step_is_detected() {
        let stuck = || Some(status(Phase::Collective, 7));
        check(
            &[(1, stuck()), (30, stuck()), (60, stuck()), (61, stuck())],
            Some((
                61,
                "the runner made no progress for 60 s; it is in phase collective after step 7",
            )),
        );
    }

    #[test]
    fn compiling_and_preparing_have_a_longer_limit() {
        let compiles = || Some(status(Phase::Compile, 7));
        check(&[(0, compiles()), (100, compiles()), (359, compiles())], None);
        check(&[(0, None), (359, None)], None);
        check(
            &[(0, None), (360, None)],
            Some((
                360,
                "the runner made no progress for 360 s; it is in phase unspecified after step 0",
            )),
        );
    }

    #[test]
    fn a_download_without_progress_hangs_and_a_long_one_does_not() {
        let fetches = || Some(status(Phase::Fetch, 0));
        let message = "the runner made no progress for 60 s; it is in phase fetch after step 0";
        check(&[(0, fetches()), (59, fetches()), (60, fetches())], Some((60, message)));
        let start = Instant::now();
        let mut heartbeat = Heartbeat::new(LIMIT, start);
        for offset in 0..1000 {
            let now = start + Duration::from_secs(30 * offset);
            assert!(heartbeat.observe(now, offset, 0, fetches().as_ref()).is_none());
        }
    }

    #[test]
    fn a_runner_that_stops_answering_hangs() {
        let preparing = || Some(status(Phase::Input, 0));
        check(
            &[(0, preparing()), (119, None), (120, None)],
            Some((120, "the runner has not answered for 120 s; it is in phase input after step 0")),
        );
    }
}
