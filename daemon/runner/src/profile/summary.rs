//! A profile in numbers: the time of phases, layers and operations.

use std::collections::BTreeMap;
use std::time::Duration;

use traind_proto::v1::{Phase, Profile, ProfiledPart, ProfiledPhase};

use super::Recording;
use super::timeline::{Part, timelines};

/// The most layers and the most operations of a profile.
const PARTS_MAX: usize = 1000;
/// The name of what belongs to no layer, such as updates.
const OUTSIDE: &str = "outside of layers";
/// The name of a program's code that is no kernel of ours.
pub(super) const PLUGIN_CODE: &str = "code of the plugin";

/// Neuron's own profiler, which writes files while a process runs.
const INSPECT: [&str; 2] = ["NEURON_RT_INSPECT_ENABLE", "NEURON_RT_INSPECT_OUTPUT_DIR"];

/// Sums up a recording of a job on `cores` of this host.
pub(crate) fn summary(recording: &Recording, cores: &[u32]) -> Profile {
    let timelines = timelines(recording);
    let programs = timelines.iter().flat_map(|it| &it.programs);
    let program_time: Duration = programs.map(|run| run.end - run.start).sum();
    let parts = || timelines.iter().flat_map(|timeline| &timeline.parts);
    let kernel_time: Duration =
        parts().filter(|part| part.kernel.is_some()).map(|part| part.share).sum();
    let (layers, operations) = (grouped(parts(), layer_of), grouped(parts(), operation_of));
    let notes = notes(recording, operations.is_empty());
    Profile {
        first_step: recording.first_step,
        steps: recording.steps.len() as u64,
        seconds: recording.wall().as_secs_f64(),
        cores: cores.to_vec(),
        phases: phases(recording),
        program_seconds: program_time.as_secs_f64(),
        kernel_seconds: kernel_time.as_secs_f64(),
        layers,
        operations,
        core_flops: recording.limits.flops,
        core_bytes_per_second: recording.limits.bytes_per_second,
        notes,
    }
}

fn phases(recording: &Recording) -> Vec<ProfiledPhase> {
    let mut sums: BTreeMap<&'static str, Duration> = BTreeMap::new();
    for (phase, time) in recording.phase_times() {
        *sums.entry(phase_name(phase)).or_default() +=
            time.end.saturating_duration_since(time.start);
    }
    let phase = |(name, time): (&str, Duration)| ProfiledPhase {
        name: name.to_owned(),
        seconds: time.as_secs_f64(),
    };
    let mut phases: Vec<ProfiledPhase> = sums.into_iter().map(phase).collect();
    phases.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    phases
}

/// The name of a phase, for display.
pub(super) fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::Unspecified | Phase::Idle => "other",
        Phase::Input => "wait for data",
        Phase::Dispatch => "launch",
        Phase::Compute => "execute",
        Phase::Collective => "collectives",
        Phase::Checkpoint => "checkpoint",
        Phase::Compile => "compile",
        Phase::Evaluate => "evaluate",
        Phase::Fetch => "download",
    }
}

fn layer_of(part: &Part) -> String {
    if part.layer.is_empty() { OUTSIDE.to_owned() } else { part.layer.clone() }
}

fn operation_of(part: &Part) -> String {
    match part.kernel {
        Some(_) => part.operation.clone(),
        None => format!("{PLUGIN_CODE} before {}", part.operation),
    }
}

/// Sums parts of the same name, longest first.
fn grouped<'a>(
    parts: impl Iterator<Item = &'a Part>,
    name: impl Fn(&Part) -> String,
) -> Vec<ProfiledPart> {
    let mut groups: BTreeMap<String, ProfiledPart> = BTreeMap::new();
    for part in parts {
        let group = groups.entry(name(part)).or_default();
        group.seconds += part.share.as_secs_f64();
        group.calls += u64::from(part.kernel.is_some());
        group.flops += part.flops;
        group.bytes += part.bytes as f64;
    }
    let named = groups.into_iter().map(|(name, group)| ProfiledPart { name, ..group });
    let mut parts: Vec<ProfiledPart> = named.collect();
    parts.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
    parts.truncate(PARTS_MAX);
    parts
}

fn notes(recording: &Recording, has_no_parts: bool) -> Vec<String> {
    let mut notes = Vec::new();
    if recording.lost > 0 {
        notes.push(format!("{} events did not fit; record fewer steps", recording.lost));
    }
    if has_no_parts {
        notes.push(
            "the plugin does not report the operations inside of its programs; the trace has the programs of each core"
                .to_owned(),
        );
    }
    let [is_enabled, folder] = INSPECT.map(std::env::var);
    if let (Ok("1"), Ok(folder)) = (is_enabled.as_deref(), folder) {
        let folder = std::path::absolute(&folder).unwrap_or_else(|_| folder.into());
        notes.push(format!(
            "Neuron's runtime writes its own profile to {}: open it with neuron-profile",
            folder.display()
        ));
    }
    notes
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::super::tests::recording;
    use super::*;

    #[test]
    fn phases_and_parts_add_up() {
        let profile = summary(&recording(Instant::now()), &[3]);
        assert_eq!((profile.first_step, profile.steps, &profile.cores[..]), (5, 2, &[3][..]));
        let phases: Vec<_> =
            profile.phases.iter().map(|it| (it.name.as_str(), it.seconds)).collect();
        assert_eq!(phases, [("execute", 0.18), ("wait for data", 0.015), ("launch", 0.005)]);
        assert_eq!([profile.program_seconds, profile.kernel_seconds], [0.16, 0.11]);
        let [layer] = &profile.layers[..] else { panic!("{profile:?}") };
        assert_eq!((layer.name.as_str(), layer.calls, layer.flops), ("layer.0", 4, 24e6));
        assert!((layer.seconds - 0.16).abs() < 1e-9, "{layer:?}");
        let found: Vec<_> = profile.operations.iter().map(|it| it.name.as_str()).collect();
        let expect = [
            "matmul f32[2,3]",
            "matmul backward f32[2,3]",
            "code of the plugin before matmul backward f32[2,3]",
            "code of the plugin before the end",
        ];
        assert_eq!(found.len(), expect.len());
        assert!(expect.iter().all(|name| found.contains(name)), "{found:?}");
        assert!(profile.notes.is_empty(), "{:?}", profile.notes);
    }

    #[test]
    fn a_platform_without_kernels_has_programs_alone() {
        let mut recording = recording(Instant::now());
        recording.kernels.clear();
        recording.lost = 2;
        let profile = summary(&recording, &[0]);
        assert!(profile.layers.is_empty() && profile.operations.is_empty());
        assert!((profile.program_seconds - 0.16).abs() < 1e-9);
        let [lost, reason] = &profile.notes[..] else { panic!("{profile:?}") };
        assert!(lost.starts_with("2 events") && reason.contains("does not report"));
    }
}
