//! The outcome of a job, from its runner's last event and exit status.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use traind_neuron::explain_last;
use traind_proto::{reasons, v1};

use crate::jobs::cluster::{End, EndKind};
use crate::jobs::one_line::LAST_LINES;
use crate::jobs::state::Outcome;
use crate::jobs::store::Job;
use crate::jobs::wire;

/// Exit code of runners and launchers that cannot write into the run folder, and so cannot report
/// an error.
pub(crate) const EXIT_IO_ERROR: u8 = 74;
/// Exit code of launchers that cannot start the runner, for a reason that they have printed.
pub(crate) const EXIT_NOT_STARTED: u8 = 71;
pub(super) const RUN_DIR_NOT_WRITABLE: &str = "the runner could not write into its run folder: the disk of the daemon's state \
                    was full, read-only or failing";

/// Everything known about a runner whose process has ended.
#[derive(Debug, Default)]
pub(super) struct Evidence {
    /// The runner's last event, if it wrote one.
    pub finished: Option<v1::Finished>,
    /// The job was cancelled.
    pub cancelled: bool,
    /// The process exceeded its grace period and was killed.
    pub killed: bool,
    /// Unknown for a runner that was an earlier daemon's child.
    pub exit: Option<ExitStatus>,
    /// The last lines of the runner's output.
    pub log_tail: String,
    /// Whether the job's cores are NeuronCores.
    pub is_neuron: bool,
    /// The last step that the runner reported.
    pub step: Option<u64>,
    /// The machine restarted since the runner started.
    pub rebooted: bool,
    /// How its cluster says that it ended.
    pub end: Option<End>,
    /// The report of another host of the job in place of the first one, which died.
    pub witness: Option<v1::Failure>,
    /// Why the daemon stopped the runner.
    pub trouble: Option<v1::Failure>,
}

/// The runner's last event decides; a runner that died without one failed, unless it was cancelled.
pub(super) fn verdict(mut evidence: Evidence) -> (Outcome, Option<v1::Failure>) {
    let outcome = evidence.finished.as_ref().map(v1::Finished::outcome);
    if evidence.trouble.is_some() && outcome != Some(v1::Outcome::Completed) {
        return (Outcome::Failed, evidence.trouble);
    }
    match evidence.finished {
        Some(finished) => {
            let outcome = wire::outcome_from_proto(finished.outcome());
            let failure = finished.failure.filter(|_| outcome == Outcome::Failed);
            (outcome, failure.or_else(|| (outcome == Outcome::Failed).then(unexplained)))
        }
        None if evidence.cancelled => (Outcome::Cancelled, None),
        None => {
            (Outcome::Failed, Some(evidence.witness.take().unwrap_or_else(|| death(&evidence))))
        }
    }
}

fn unexplained() -> v1::Failure {
    v1::Failure {
        reason: reasons::INTERNAL.to_owned(),
        message: "the runner failed without reporting a reason".to_owned(),
        ..Default::default()
    }
}

fn death(evidence: &Evidence) -> v1::Failure {
    if evidence.exit.and_then(|status| status.code()) == Some(i32::from(EXIT_IO_ERROR)) {
        let reason = reasons::RUN_DIRECTORY_FAILED.to_owned();
        let message = RUN_DIR_NOT_WRITABLE.to_owned();
        let (step, transient) = (evidence.step, true);
        return v1::Failure { reason, message, step, transient, ..Default::default() };
    }
    if evidence.rebooted {
        let reason = reasons::RUNNER_DIED.to_owned();
        let message = "the machine went down while the runner ran".to_owned();
        let (step, transient) = (evidence.step, true);
        return v1::Failure { reason, message, step, transient, ..Default::default() };
    }
    let mut message = match (evidence.exit, &evidence.end) {
        (_, Some(end)) => end.description.clone(),
        (Some(status), None) => format!("the runner {}", describe_exit(status)),
        (None, None) => {
            "the runner died; an earlier daemon had started it, so its exit status is unknown"
                .to_owned()
        }
    };
    if evidence.exit.and_then(|status| status.signal()) == Some(9) && !evidence.killed {
        message.push_str(" (the kernel kills processes when memory runs out)");
    }
    if let Some(meaning) = abort_meaning(evidence) {
        message.push_str(": ");
        message.push_str(&meaning);
    }
    if evidence.log_tail.is_empty() {
        message.push_str("; it printed nothing");
    } else {
        message.push_str(LAST_LINES);
        message.push('\n');
        message.push_str(&evidence.log_tail);
    }
    failure_of(evidence.end.as_ref(), message, evidence.step)
}

/// The failure of a job by what its cluster says of it. `said`: where its output is.
pub(super) fn death_in_cluster(job: &Job, end: &End, said: &str) -> v1::Failure {
    let step = job.progress.as_ref().map(|progress| progress.step);
    failure_of(Some(end), format!("{}; {said}", end.description), step)
}

fn failure_of(end: Option<&End>, message: String, step: Option<u64>) -> v1::Failure {
    let reason = match end.map(|end| end.kind) {
        Some(EndKind::OutOfMemory) => reasons::OUT_OF_MEMORY,
        _ => reasons::RUNNER_DIED,
    };
    // The cluster ends a job at its own limit, whose runners could not save in time.
    let kinds = [EndKind::HostLost, EndKind::TimeLimit];
    let transient = end.is_some_and(|end| kinds.contains(&end.kind));
    let (reason, host) = (reason.to_owned(), end.and_then(|end| end.host.clone()));
    v1::Failure { reason, message, step, transient, host, ..Default::default() }
}

/// Explains the last lines of a runner whose process Neuron's plugin or runtime ended. One that was killed from outside
/// may have left older lines.
fn abort_meaning(evidence: &Evidence) -> Option<String> {
    let exit = evidence.exit?;
    let is_killed = exit.signal().is_some_and(|signal| [9, 15].contains(&signal));
    let of_runner = evidence.is_neuron && !is_killed && evidence.end.is_none();
    let (meaning, _) = of_runner.then(|| explain_last(&evidence.log_tail)).flatten()?;
    Some(meaning.to_string())
}

fn describe_exit(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("was killed by signal {signal}{}", signal_name(signal)),
        (None, Some(code)) => format!("exited with code {code} without reporting how it ended"),
        (None, None) => format!("ended with an unknown status ({status})"),
    }
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        2 => " (SIGINT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        7 => " (SIGBUS)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        15 => " (SIGTERM)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(evidence: Evidence, expect: Outcome, words: &[&str]) {
        let (outcome, failure) = verdict(evidence);
        assert_eq!(outcome, expect);
        let text = failure.map(|failure| format!("{}: {}", failure.reason, failure.message));
        assert_eq!(text.is_some(), !words.is_empty(), "{text:?}");
        for word in words {
            assert!(text.as_ref().is_some_and(|text| text.contains(word)), "{text:?} lacks {word}");
        }
    }

    fn finished(outcome: v1::Outcome) -> Option<v1::Finished> {
        Some(v1::Finished { outcome: outcome.into(), ..Default::default() })
    }

    fn exit(raw: i32) -> Option<ExitStatus> {
        Some(ExitStatus::from_raw(raw))
    }

    #[test]
    fn the_last_event_takes_precedence_over_the_exit_status() {
        let completed = finished(v1::Outcome::Completed);
        check(
            Evidence { finished: completed, exit: exit(9), ..Default::default() },
            Outcome::Completed,
            &[],
        );
        let completed = finished(v1::Outcome::Completed);
        check(
            Evidence { finished: completed, cancelled: true, ..Default::default() },
            Outcome::Completed,
            &[],
        );
        let failed = finished(v1::Outcome::Failed);
        check(
            Evidence { finished: failed, ..Default::default() },
            Outcome::Failed,
            &["without reporting a reason"],
        );
    }

    #[test]
    fn a_failure_without_an_event_has_the_signal_and_the_last_lines() {
        let log_tail = "F0001 check failed".to_owned();
        let evidence = Evidence { exit: exit(6), log_tail, step: Some(7), ..Default::default() };
        check(
            evidence,
            Outcome::Failed,
            &["RUNNER_DIED", "signal 6 (SIGABRT)", "F0001 check failed"],
        );
        check(
            Evidence { exit: exit(3 << 8), ..Default::default() },
            Outcome::Failed,
            &["code 3", "printed nothing"],
        );
        check(
            Evidence { exit: exit(i32::from(EXIT_IO_ERROR) << 8), ..Default::default() },
            Outcome::Failed,
            &["RUN_DIRECTORY_FAILED", "run folder"],
        );
        check(Evidence { exit: exit(9), ..Default::default() }, Outcome::Failed, &["memory"]);
        check(Evidence::default(), Outcome::Failed, &["an earlier daemon had started it"]);
        let rebooted = Evidence { rebooted: true, ..Default::default() };
        check(rebooted, Outcome::Failed, &["the machine went down"]);
    }

    #[test]
    fn a_runner_that_neurons_runtime_aborts_has_a_meaning_and_a_remedy() {
        let log_tail = "F external/xla/xla/parse_flags_from_env.cc:224] Unknown flags in XLA_FLAGS: --a\n*** abort";
        let died = |is_neuron, raw| Evidence {
            exit: exit(raw),
            log_tail: log_tail.to_owned(),
            is_neuron,
            ..Default::default()
        };
        let remedy = "(SIGABRT): XLA_FLAGS has a flag of another platform: remove it";
        check(died(true, 6), Outcome::Failed, &["RUNNER_DIED", remedy, "its last lines:\nF ext"]);
        let core = "ND 0:NC 1 nrt_execute failed: NRT_EXEC_HW_ERR_NC_UE status=1202";
        let of_core = Evidence { log_tail: core.to_owned(), ..died(true, 3 << 8) };
        check(
            of_core,
            Outcome::Failed,
            &["code 3", "NRT 1202", "ND 0:NC 1", "replace the instance"],
        );
        for other in [died(false, 6), died(true, 9)] {
            let message = verdict(other).1.unwrap().message;
            assert!(!message.contains("remove it"), "{message}");
        }
    }

    #[test]
    fn the_loss_of_the_first_host_is_reported_by_another() {
        let witness = v1::Failure { reason: "HOST_LOST".into(), ..Default::default() };
        let witness = || Some(witness.clone());
        let lost = Evidence { witness: witness(), ..Default::default() };
        check(lost, Outcome::Failed, &["HOST_LOST"]);
        let completed = finished(v1::Outcome::Completed);
        let both = Evidence { finished: completed, witness: witness(), ..Default::default() };
        check(both, Outcome::Completed, &[]);
    }

    #[test]
    fn a_runner_that_the_daemon_stopped_failed() {
        let trouble = || Some(v1::Failure { reason: "RUNNER_HUNG".into(), ..Default::default() });
        let cancelled = finished(v1::Outcome::Cancelled);
        check(
            Evidence { finished: cancelled, trouble: trouble(), ..Default::default() },
            Outcome::Failed,
            &["RUNNER_HUNG"],
        );
        let completed = finished(v1::Outcome::Completed);
        check(
            Evidence { finished: completed, trouble: trouble(), ..Default::default() },
            Outcome::Completed,
            &[],
        );
    }

    #[test]
    fn a_cancelled_runner_may_die_of_the_signal() {
        check(
            Evidence { cancelled: true, exit: exit(15), ..Default::default() },
            Outcome::Cancelled,
            &[],
        );
    }
}
