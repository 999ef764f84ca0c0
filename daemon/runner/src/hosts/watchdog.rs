//! Ends this host's runner when another host is lost or has failed, even while a collective blocks.

use std::process::exit;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use prost::Message as _;
use rustix::process::{Signal, getpid, kill_process};
use traind_proto::reasons;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{Failure, Finished, HostStatus, Outcome, Phase};
use traind_rendezvous::{Client, HostState, Verdict, WatchSettings};

use super::Hosts;
use crate::reporting::{Reporter, Stop, print_line};

/// The time in which the process must end once its last event is written.
const EXIT_MAX: Duration = Duration::from_secs(5);
/// Steps whose median time counts.
const STEPS: usize = 33;

/// The parts of the run that the watch reads.
#[derive(Debug)]
pub(crate) struct Watched {
    pub reporter: Reporter,
    pub cores: Vec<u32>,
    pub started: Instant,
    pub stop: Stop,
}

/// Starts to report this host's state, and to wait for the verdict on which all hosts end.
pub(super) fn start(hosts: &Hosts, client: &Client, settings: WatchSettings, watched: Watched) {
    let Watched { reporter, cores, started, stop } = watched;
    let pace = Arc::new(Mutex::new(Pace::new()));
    let (ending, own_rank) = (reporter.clone(), hosts.rank);
    let hosts = hosts.clone();
    let state = move || {
        let mut pace = pace.lock().unwrap_or_else(PoisonError::into_inner);
        let state = state(&hosts, &reporter, &cores, &mut pace);
        if let Some(blocked) = pace.blocked(&settings, stop.reason().is_some(), Instant::now()) {
            end(&reporter, own_rank, started, verdict(own_rank, &state, blocked));
        }
        state
    };
    client.follow(settings, state, move |verdict| end(&ending, own_rank, started, verdict));
}

fn state(hosts: &Hosts, reporter: &Reporter, cores: &[u32], pace: &mut Pace) -> HostState {
    take_warnings(hosts, reporter);
    let status = reporter.activity.status();
    pace.observe(status.step, status.phase, Instant::now());
    HostState {
        phase: status.phase.as_str_name().trim_start_matches("PHASE_").to_lowercase(),
        should_progress: status.phase == Phase::Input,
        // A CPU computes while it is handed the program.
        step: status.step + u64::from(matches!(status.phase, Phase::Dispatch | Phase::Compute)),
        step_seconds: pace.median(),
        cores: cores.to_vec(),
        warnings: if hosts.is_first() { Vec::new() } else { reporter.journal.take_warnings() },
        status: own_status(reporter, cores).encode_to_vec(),
    }
}

fn own_status(reporter: &Reporter, cores: &[u32]) -> HostStatus {
    HostStatus { usage: reporter.activity.usages(cores), ..HostStatus::default() }
}

/// The end of a host that was asked to stop, and whose step waits for others that do not come.
fn verdict(rank: u32, state: &HostState, blocked: Duration) -> Verdict {
    let (seconds, step, phase) = (blocked.as_secs(), state.step, &state.phase);
    let message = format!(
        "host {rank} was asked to stop, and has made no progress for {seconds} s; it is in phase {phase} of \
         step {step}"
    );
    let reason = reasons::HOST_LOST.to_owned();
    Verdict { rank, reason, message, transient: true, step: Some(step), host: String::new() }
}

/// Records the warnings of the other hosts in the job's log.
fn take_warnings(hosts: &Hosts, reporter: &Reporter) {
    let server = hosts.met.get().and_then(|met| met.server.as_ref());
    for warning in server.map(|server| server.take_warnings()).unwrap_or_default() {
        // The next event of the run reports a log that cannot be written.
        let _ = reporter.journal.warn("OTHER_HOST", warning);
    }
}

/// Writes the last event and ends the process, whatever its other threads do.
#[expect(
    clippy::disallowed_methods,
    reason = "the threads with destructors may be blocked for ever"
)]
fn end(reporter: &Reporter, own_rank: u32, started: Instant, verdict: Verdict) {
    if verdict.rank == own_rank && verdict.reason != reasons::HOST_LOST {
        // This host has failed, and writes its own event.
        return;
    }
    let Verdict { rank, reason, message, transient, step, host } = verdict;
    let host = Some(host).filter(|host| !host.is_empty());
    let is_failure = !message.starts_with("host ");
    let message = if is_failure { format!("host {rank}: {message}") } else { message };
    print_line(format_args!("error: {message}"));
    let failure = Failure { reason, message, transient, step, host, ..Failure::default() };
    let finished = Finished {
        outcome: Outcome::Failed.into(),
        failure: Some(failure),
        steps: reporter.activity.status().step,
        seconds: started.elapsed().as_secs_f64(),
        ..Finished::default()
    };
    // Exiting runs destructors of libraries, which may wait for the blocked collective.
    limit_exit(EXIT_MAX);
    if let Err(error) = reporter.journal.record_last(Kind::Finished(finished)) {
        print_line(format_args!("error: {error}"));
    }
    exit(1);
}

/// Kills this process unless it has ended by itself after `limit`.
pub(super) fn limit_exit(limit: Duration) {
    std::thread::spawn(move || {
        std::thread::sleep(limit);
        let _ = kill_process(getpid(), Signal::KILL);
    });
}

/// The time of the newest steps, and the last progress.
#[derive(Debug)]
struct Pace {
    step: u64,
    since: Instant,
    seconds: Vec<f64>,
    phase: Phase,
    /// The last change of step or phase.
    progressed: Instant,
    /// When this host was asked to stop.
    asked: Option<Instant>,
}

impl Pace {
    fn new() -> Pace {
        let now = Instant::now();
        let (phase, seconds) = (Phase::Unspecified, Vec::new());
        Pace { step: 0, since: now, seconds, phase, progressed: now, asked: None }
    }

    /// Takes the mean time of the steps since the last call.
    fn observe(&mut self, step: u64, phase: Phase, now: Instant) {
        if (step, phase) != (self.step, self.phase) {
            (self.phase, self.progressed) = (phase, now);
        }
        let steps = step.saturating_sub(self.step);
        if steps == 0 {
            return;
        }
        let seconds = now.duration_since(self.since).as_secs_f64() / steps as f64;
        if self.seconds.len() == STEPS {
            self.seconds.remove(0);
        }
        // The time before the first step is that of preparing and compiling.
        if self.step > 0 {
            self.seconds.push(seconds);
        }
        (self.step, self.since) = (step, now);
    }

    /// How long the host has made no progress although it was asked to stop, if that is too long. Phases
    /// that take long by themselves count as progress.
    fn blocked(
        &mut self,
        settings: &WatchSettings,
        is_asked: bool,
        now: Instant,
    ) -> Option<Duration> {
        if !is_asked {
            return None;
        }
        let asked = *self.asked.get_or_insert(now);
        let phases = [Phase::Input, Phase::Dispatch, Phase::Compute, Phase::Collective];
        let steps = Duration::from_secs_f64(settings.delay_steps * self.median());
        let blocked = now.duration_since(asked.max(self.progressed));
        (phases.contains(&self.phase) && blocked > settings.silence_max.max(steps))
            .then_some(blocked)
    }

    /// 0 where unknown.
    fn median(&self) -> f64 {
        let mut sorted = self.seconds.clone();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pace_is_the_median_of_the_newest_steps() {
        let mut pace = Pace::new();
        assert_eq!(pace.median(), 0.0);
        let start = pace.since;
        let mut at = 0;
        for (step, seconds) in [(2, 2), (3, 1), (3, 50), (4, 0), (5, 1), (6, 1)] {
            at += seconds;
            pace.observe(step, Phase::Compute, start + Duration::from_secs(at));
        }
        assert_eq!(pace.median(), 1.0);
    }

    #[test]
    fn a_host_that_was_asked_to_stop_is_blocked_when_its_step_does_not_end() {
        let settings = WatchSettings::default();
        let mut pace = Pace::new();
        let at = |second| pace.since + Duration::from_secs(second);
        let times = [0, 1, 50, 70, 71, 91, 200, 9_000, 99_000].map(at);
        let [start, begun, asked, not_yet, late, next, slow, saves, last] = times;
        let mut check = |step, phase, is_asked, now, expect: Option<u64>| {
            pace.observe(step, phase, now);
            let blocked = pace.blocked(&settings, is_asked, now);
            assert_eq!(blocked, expect.map(Duration::from_secs));
        };
        check(0, Phase::Compile, false, start, None);
        check(1, Phase::Compute, false, begun, None);
        check(1, Phase::Compute, true, asked, None);
        check(1, Phase::Compute, true, not_yet, None);
        check(1, Phase::Compute, true, late, Some(21));
        // A step took 90 s by the median, so that 20 of them may take half an hour.
        check(2, Phase::Compute, true, next, None);
        check(2, Phase::Compute, true, slow, None);
        check(3, Phase::Checkpoint, true, saves, None);
        check(3, Phase::Checkpoint, true, last, None);
    }
}
