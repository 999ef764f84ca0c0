//! Human-readable text, shared by the command line and the web page.

pub(crate) mod events;
mod mesh;
mod meshes;

use std::time::{Duration, SystemTime};

use prost_types::Timestamp;
use traind_proto::v1::{CoreUsage, Job, JobState, Phase};
use traind_wording::counted;

pub(crate) use crate::size::bytes;
pub(crate) use mesh::{axes, communication, stage};
pub(crate) use meshes::{mesh_notes, mesh_settings};

/// Replaces the characters of untrusted text that would control a terminal or change the direction of
/// text.
pub(crate) fn printable(text: &str) -> String {
    let is_control = |c: char| {
        let changes_direction = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        changes_direction || (c.is_control() && !['\n', '\t'].contains(&c))
    };
    text.replace(is_control, "\u{fffd}")
}

/// Untrusted text as one line: a line break in it would look like a line of the program.
pub(crate) fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\\n").replace('\t', "\\t")
}

/// The lines of untrusted text, of which all but the first are indented.
pub(crate) fn indented(text: &str) -> String {
    printable(text).replace('\n', "\n    ")
}

/// The state's name in lower case.
pub(crate) fn state(state: JobState) -> String {
    plain(state.as_str_name(), "JOB_STATE_")
}

/// The phase's name in lower case.
pub(crate) fn phase(phase: Phase) -> String {
    plain(phase.as_str_name(), "PHASE_")
}

/// The phase of a core, with the progress of compiling while it lasts: "compute, 4 of 11 programs".
pub(crate) fn activity(usage: &CoreUsage) -> String {
    let phase = phase(usage.phase());
    match (usage.programs_compiled, usage.programs_total) {
        (compiled, total) if compiled < total => format!("{phase}, {compiled} of {total} programs"),
        _ => phase,
    }
}

pub(crate) fn plain(name: &str, prefix: &str) -> String {
    name.strip_prefix(prefix).unwrap_or(name).to_lowercase()
}

/// `1h02m`, `3m20s`, `12s`, `0.4s`.
pub(crate) fn duration(seconds: f64) -> String {
    let whole = seconds.max(0.0) as u64;
    match whole {
        0..10 => format!("{seconds:.1}s"),
        10..60 => format!("{whole}s"),
        60..3600 => format!("{}m{:02}s", whole / 60, whole % 60),
        _ => format!("{}h{:02}m", whole / 3600, whole % 3600 / 60),
    }
}

/// The cores that a job requests and holds: "2 cpu (0,1)", or "2 cpu" while it waits. In a cluster with
/// the hosts: "4 cpu on 2 hosts (n[1-2])".
pub(crate) fn cores(job: &Job) -> String {
    if !["", "local"].contains(&job.engine.as_str()) {
        let hosts = counted(job.host_count, "host");
        let names = match job.host_names.as_str() {
            "" => String::new(),
            names => format!(" ({names})"),
        };
        return format!("{} {} on {hosts}{names}", job.core_count, job.platform);
    }
    let held: Vec<String> = job.cores.iter().map(ToString::to_string).collect();
    let held = if held.is_empty() { held.concat() } else { format!(" ({})", held.join(",")) };
    format!("{} {}{held}", job.core_count, job.platform)
}

/// The time since then; empty if there is no time.
pub(crate) fn age(time: Option<&Timestamp>) -> String {
    let Some(time) = time.and_then(|time| SystemTime::try_from(*time).ok()) else {
        return String::new();
    };
    let age = SystemTime::now().duration_since(time).unwrap_or(Duration::ZERO);
    match age.as_secs() {
        days @ 86_400.. => format!("{}d", days / 86_400),
        seconds => duration(seconds as f64),
    }
}

/// The time until then; `None` if the time is not known.
pub(crate) fn until(time: Option<&Timestamp>) -> Option<String> {
    let time = SystemTime::try_from(*time?).ok()?;
    let left = time.duration_since(SystemTime::now()).unwrap_or(Duration::ZERO);
    Some(duration(left.as_secs_f64()))
}

/// A number to about four digits: `0.1234`, `1.45e-5`, `812.3`.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        small if small > 0.0 && small < 1e-3 => format!("{value:.3e}"),
        large if large >= 100.0 => format!("{value:.1}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_replaced() {
        let hostile = "a\u{1b}]52;c;Y3VybA==\u{7}b\u{9b}2J\r\u{202e}txt\nnext\t\u{e4}";
        assert_eq!(
            printable(hostile),
            "a\u{fffd}]52;c;Y3VybA==\u{fffd}b\u{fffd}2J\u{fffd}\u{fffd}txt\nnext\t\u{e4}"
        );
    }

    #[test]
    fn a_line_break_in_untrusted_text_begins_no_line_of_the_program() {
        assert_eq!(one_line("eval\nstate      completed\t1"), "eval\\nstate      completed\\t1");
        assert_eq!(indented("failed\nstate      completed"), "failed\n    state      completed");
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.42, 12.0, 200.0, 3720.0].map(duration), ["0.4s", "12s", "3m20s", "1h02m"]);
        assert_eq!([0, 1536, 3 << 30].map(bytes), ["0 B", "1.5 KiB", "3.0 GiB"]);
        assert_eq!(
            [0.0, 1.45e-5, 0.5, 812.34].map(number),
            ["0.0000", "1.450e-5", "0.5000", "812.3"]
        );
        assert_eq!(state(JobState::Pending), "pending");
    }

    #[test]
    fn an_activity_has_the_programs_that_are_not_compiled_yet() {
        let of = |programs_compiled, programs_total| {
            let phase = Phase::Compute.into();
            activity(&CoreUsage { phase, programs_compiled, programs_total, ..Default::default() })
        };
        assert_eq!(
            [of(0, 0), of(4, 11), of(11, 11)],
            ["compute", "compute, 4 of 11 programs", "compute"]
        );
    }
}
