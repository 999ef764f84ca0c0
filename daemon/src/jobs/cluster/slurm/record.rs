//! A job's record, as `scontrol show job --oneliner` and `sacct --parsable2` print it. Both have more
//! fields with each version, and some clusters lack some of them.

use std::time::Duration;

use super::super::{Condition, End, EndKind, Report};
use super::waiting;

/// Reads the controller's record; `None` if it has no state.
pub(super) fn of_controller(id: &str, text: &str) -> Option<Report> {
    let state = field(text, "JobState")?;
    let elapsed = field(text, "RunTime").and_then(duration).unwrap_or_default();
    let hosts = field(text, "NodeList").filter(|it| *it != "(null)").unwrap_or_default();
    let facts = Facts {
        state,
        reason: field(text, "Reason").unwrap_or_default(),
        exit: field(text, "ExitCode").unwrap_or_default(),
        hosts,
        elapsed,
    };
    let restarts = field(text, "Restarts").and_then(|count| count.parse().ok()).unwrap_or(0);
    Some(Report { condition: facts.condition(id), restarts, hosts: hosts.to_owned() })
}

/// Reads the accounting's line, `State|ExitCode|ElapsedRaw|NodeList`.
pub(super) fn of_accounting(id: &str, text: &str) -> Option<Report> {
    // A requeued job has a line for each of its runs.
    let mut parts = text.lines().last()?.split('|');
    let (state, exit) = (parts.next()?, parts.next()?);
    let elapsed = parts.next().and_then(|seconds| seconds.parse().ok()).unwrap_or(0);
    let hosts = parts.next().unwrap_or_default();
    // "CANCELLED by 1000".
    let state = state.split(' ').next().filter(|state| !state.is_empty())?;
    let elapsed = Duration::from_secs(elapsed);
    let facts = Facts { state, reason: "", exit, hosts, elapsed };
    Some(Report { condition: facts.condition(id), restarts: 0, hosts: hosts.to_owned() })
}

/// The value of `name=value` in a record.
fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let mut words = text.split_whitespace();
    words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
}

/// Parses `[DAYS-]HOURS:MINUTES:SECONDS`.
fn duration(text: &str) -> Option<Duration> {
    let (days, time) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds = days.parse::<u64>().ok()? * 24;
    let parts: Vec<u64> = time.split(':').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [hours, minutes, last] = parts[..] else { return None };
    seconds = ((seconds + hours) * 60 + minutes) * 60 + last;
    Some(Duration::from_secs(seconds))
}

/// The fields of a record that matter.
struct Facts<'a> {
    state: &'a str,
    reason: &'a str,
    /// "CODE:SIGNAL".
    exit: &'a str,
    hosts: &'a str,
    elapsed: Duration,
}

impl Facts<'_> {
    fn condition(&self, id: &str) -> Condition {
        let kind = match self.state {
            "PENDING" | "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT"
            | "RESV_DEL_HOLD" => return Condition::Waiting(self.waiting(id)),
            "COMPLETED" => EndKind::Completed,
            "CANCELLED" | "REVOKED" => EndKind::Cancelled,
            "FAILED" => EndKind::Failed,
            "OUT_OF_MEMORY" => EndKind::OutOfMemory,
            "TIMEOUT" | "DEADLINE" => EndKind::TimeLimit,
            "NODE_FAIL" | "BOOT_FAIL" | "PREEMPTED" => EndKind::HostLost,
            "SUSPENDED" => return Condition::Paused(paused(id)),
            // CONFIGURING, COMPLETING and others: it holds its hosts.
            _ => return Condition::Running(self.elapsed),
        };
        let description = self.describe(id, kind);
        Condition::Ended(End { kind, elapsed: self.elapsed, description, host: self.lost() })
    }

    /// The host that failed; unknown if the job had several.
    fn lost(&self) -> Option<String> {
        let failed = ["NODE_FAIL", "BOOT_FAIL"].contains(&self.state);
        let is_one = !self.hosts.is_empty() && !self.hosts.contains(['[', ',']);
        (failed && is_one).then(|| self.hosts.to_owned())
    }

    fn waiting(&self, id: &str) -> String {
        let words = match self.state {
            "REQUEUE_HOLD" | "SPECIAL_EXIT" => waiting::describe("JobHeldUser"),
            _ => waiting::describe(self.reason),
        };
        format!("Slurm job {id} waits: {words}")
    }

    fn describe(&self, id: &str, kind: EndKind) -> String {
        let on = match self.hosts {
            "" | "None assigned" => String::new(),
            hosts => format!(" on {hosts}"),
        };
        let end = match kind {
            EndKind::Completed => "completed".to_owned(),
            EndKind::Cancelled => "was cancelled".to_owned(),
            EndKind::Failed => format!("failed{on}: {}", self.exit_words()),
            EndKind::OutOfMemory => {
                format!("ran out of memory{on}; slurm.options may ask for more, such as --mem=64G")
            }
            EndKind::TimeLimit => {
                format!("reached its time limit{on} after {} s", self.elapsed.as_secs())
            }
            EndKind::HostLost if self.state == "PREEMPTED" => {
                "had to give up its hosts for another job".to_owned()
            }
            EndKind::HostLost => format!("lost a host{on} ({})", self.state),
        };
        format!("Slurm job {id} {end}")
    }

    fn exit_words(&self) -> String {
        match self.exit.split_once(':') {
            // Slurm's own code for a job that it could not start.
            Some((_, "53")) => "its output could not be opened: its hosts must see the run folder, and its user must be able to write to it".to_owned(),
            Some((code, "0")) => format!("it exited with code {code} ({})", waiting::describe(self.reason)),
            Some((_, signal)) => format!("it was killed by signal {signal}"),
            None => waiting::describe(self.reason),
        }
    }
}

fn paused(id: &str) -> String {
    format!("Slurm job {id} is suspended; `scontrol resume {id}` continues it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn controller(fields: &str) -> Report {
        let text = format!("JobId=7 JobName=a b=c UserId=ann(1) {fields} Power= \n");
        of_controller("7", &text).unwrap()
    }

    fn check_waiting(fields: &str, expect: &str) {
        let reason = format!("Slurm job 7 waits: {expect}");
        assert_eq!(controller(fields).condition, Condition::Waiting(reason));
    }

    fn check_end(fields: &str, kind: EndKind, expect: &str) {
        let Condition::Ended(end) = controller(fields).condition else { panic!("{fields}") };
        assert_eq!((end.kind, end.description.as_str()), (kind, expect));
    }

    #[test]
    fn a_waiting_job_has_a_reason_in_words() {
        let pending = |reason: &str| format!("JobState=PENDING Reason={reason} Restarts=0");
        check_waiting(&pending("Resources"), "its hosts are not free yet");
        check_waiting(&pending("Priority"), "jobs of higher priority come first");
        check_waiting(
            &pending("ReqNodeNotAvail,_UnavailableNodes:n[1-2]"),
            "hosts that it needs are not available (UnavailableNodes:n[1-2])",
        );
        check_waiting(&pending("SomethingNew"), "SomethingNew");
    }

    #[test]
    fn a_running_job_has_hosts_and_a_time() {
        let report = controller(
            "JobState=RUNNING Reason=None Restarts=2 ExitCode=0:0 RunTime=1-02:03:04 NodeList=n[1-2] BatchHost=n1",
        );
        let seconds = ((24 + 2) * 60 + 3) * 60 + 4;
        assert_eq!(report.condition, Condition::Running(Duration::from_secs(seconds)));
        assert_eq!((report.restarts, report.hosts.as_str()), (2, "n[1-2]"));
        let completing = controller("JobState=COMPLETING RunTime=00:00:09 NodeList=n1");
        assert_eq!(completing.condition, Condition::Running(Duration::from_secs(9)));
        let suspended = controller("JobState=SUSPENDED RunTime=00:00:09 NodeList=n[1-2]");
        assert_eq!(suspended.condition, Condition::Paused(paused("7")));
    }

    #[test]
    fn ends_are_described() {
        check_end(
            "JobState=COMPLETED RunTime=00:01:00",
            EndKind::Completed,
            "Slurm job 7 completed",
        );
        check_end(
            "JobState=FAILED Reason=NonZeroExitCode ExitCode=3:0 NodeList=n1",
            EndKind::Failed,
            "Slurm job 7 failed on n1: it exited with code 3 (NonZeroExitCode)",
        );
        check_end(
            "JobState=FAILED Reason=JobLaunchFailure ExitCode=0:53 NodeList=n1",
            EndKind::Failed,
            "Slurm job 7 failed on n1: its output could not be opened: its hosts must see the run folder, \
             and its user must be able to write to it",
        );
        check_end(
            "JobState=TIMEOUT RunTime=00:05:00 NodeList=(null)",
            EndKind::TimeLimit,
            "Slurm job 7 reached its time limit after 300 s",
        );
        let lost = |hosts: &str| match controller(&format!("JobState=NODE_FAIL NodeList={hosts}"))
            .condition
        {
            Condition::Ended(end) => end.host,
            other => panic!("{other:?}"),
        };
        assert_eq!(["n[1-2]", "n1"].map(lost), [None, Some("n1".to_owned())]);
        check_end(
            "JobState=NODE_FAIL NodeList=n[1-2]",
            EndKind::HostLost,
            "Slurm job 7 lost a host on n[1-2] (NODE_FAIL)",
        );
    }

    #[test]
    fn the_accounting_remembers_what_the_controller_forgot() {
        let report =
            of_accounting("7", "NODE_FAIL|0:0|8|n1\nCANCELLED by 1000|0:15|61|n[1-2]").unwrap();
        let Condition::Ended(end) = report.condition else { panic!("{report:?}") };
        assert_eq!((end.kind, end.elapsed), (EndKind::Cancelled, Duration::from_secs(61)));
        assert_eq!(of_accounting("7", ""), None);
        assert_eq!(of_accounting("7", "|||"), None);
    }
}
