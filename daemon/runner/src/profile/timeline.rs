//! The events of each core in their order: programs, kernels inside of them, and what is left of a program, which is
//! the plugin's own code.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::{Duration, Instant};

use super::{ProgramRun, Recording};
use traind_pjrt::KernelTime;

/// A pause between kernels that is no event of its own: handing over to the next one takes as long.
const PAUSE_MIN: Duration = Duration::from_micros(1);

/// The operation before which a program runs the plugin's code after its last kernel.
const END: &str = "the end";

/// The events of one core.
#[derive(Debug)]
pub(super) struct CoreTimeline {
    /// The core among those of this host.
    pub core: usize,
    /// Programs, which follow one another.
    pub programs: Vec<ProgramRun>,
    /// Parts of programs, by their starts.
    pub parts: Vec<Part>,
}

/// A kernel, or the plugin's own code between two of them.
#[derive(Clone, Debug)]
pub(super) struct Part {
    /// The layer; empty outside of all.
    pub layer: String,
    /// The operation with the shapes of its operands. For the plugin's code, the operation of the kernel that follows.
    pub operation: String,
    /// The name of the kernel; `None` for the plugin's code.
    pub kernel: Option<&'static str>,
    /// The thread that computed it; 0 for the plugin's code.
    pub thread: u32,
    pub start: Instant,
    pub end: Instant,
    /// The time without the shares of other parts that the core computed at once.
    pub share: Duration,
    pub flops: f64,
    pub bytes: u64,
}

/// Sorts the events of a recording by core.
pub(super) fn timelines(recording: &Recording) -> Vec<CoreTimeline> {
    let mut programs: BTreeMap<usize, Vec<ProgramRun>> = BTreeMap::new();
    for run in &recording.programs {
        programs.entry(run.core).or_default().push(run.clone());
    }
    let timeline = |(core, runs)| {
        let programs = in_turn(runs);
        let kernels = kernels_of(recording, core, &programs);
        let parts = with_pauses(kernels, &programs);
        CoreTimeline { core, programs, parts }
    };
    programs.into_iter().map(timeline).collect()
}

/// A core runs one program after the other, so that each begins when the one before has ended.
fn in_turn(mut runs: Vec<ProgramRun>) -> Vec<ProgramRun> {
    runs.sort_by_key(|run| run.end);
    for at in 1..runs.len() {
        runs[at].start = runs[at].start.max(runs[at - 1].end);
    }
    runs
}

/// The kernels of a core, by their starts.
fn kernels_of(recording: &Recording, core: usize, programs: &[ProgramRun]) -> Vec<Part> {
    let own = recording.kernels.iter().filter(|it| it.device.unwrap_or(0) == core);
    let within = own.filter_map(|kernel| {
        let at = programs.partition_point(|run| run.end < kernel.start);
        let run = programs.get(at).filter(|run| run.start <= kernel.start)?;
        Some(part(recording, run, kernel))
    });
    let mut parts: Vec<Part> = within.collect();
    parts.sort_by_key(|part| part.start);
    share_overlaps(&mut parts);
    parts
}

fn part(recording: &Recording, run: &ProgramRun, kernel: &KernelTime) -> Part {
    let sites = recording.sites.get(&*run.program);
    let site = sites.and_then(|sites| sites.get(&kernel.call?));
    let operation = match site {
        Some(site) if site.is_backward => format!("{} backward {}", site.operation, site.operands),
        Some(site) => format!("{} {}", site.operation, site.operands),
        None => kernel.kernel.to_owned(),
    };
    Part {
        layer: site.map(|site| site.scope.clone()).unwrap_or_default(),
        operation,
        kernel: Some(kernel.kernel),
        thread: kernel.thread,
        start: kernel.start,
        end: kernel.end,
        share: Duration::ZERO,
        flops: site.map_or(0.0, |site| site.flops),
        bytes: kernel.bytes,
    }
}

/// Divides time in which several parts were computed evenly among them.
fn share_overlaps(parts: &mut [Part]) {
    let mut bounds: Vec<Instant> = parts.iter().flat_map(|part| [part.start, part.end]).collect();
    bounds.sort_unstable();
    bounds.dedup();
    let mut next = 0;
    let mut running: Vec<usize> = Vec::new();
    for pair in bounds.windows(2) {
        let [from, to] = *pair else { continue };
        while next < parts.len() && parts[next].start <= from {
            running.push(next);
            next += 1;
        }
        running.retain(|&at| parts[at].end > from);
        let share = (to - from) / running.len().max(1) as u32;
        running.iter().for_each(|&at| parts[at].share += share);
    }
}

/// Adds what is left of the programs. It belongs to the layer of the kernel that follows it, or else of the one before.
fn with_pauses(kernels: Vec<Part>, programs: &[ProgramRun]) -> Vec<Part> {
    if kernels.is_empty() {
        return kernels;
    }
    let mut parts = Vec::with_capacity(2 * kernels.len());
    let mut rest = kernels.into_iter().peekable();
    for run in programs {
        let mut until = run.start;
        let mut layer = String::new();
        while let Some(kernel) = rest.next_if(|kernel| kernel.start < run.end) {
            parts.extend(pause(until..kernel.start, &kernel.layer, &kernel.operation));
            until = until.max(kernel.end);
            layer.clone_from(&kernel.layer);
            parts.push(kernel);
        }
        parts.extend(pause(until..run.end, &layer, END));
    }
    parts
}

fn pause(time: Range<Instant>, layer: &str, before: &str) -> Option<Part> {
    let Range { start, end } = time;
    let share = end.saturating_duration_since(start);
    (share >= PAUSE_MIN).then(|| Part {
        layer: layer.to_owned(),
        operation: before.to_owned(),
        kernel: None,
        thread: 0,
        start,
        end,
        share,
        flops: 0.0,
        bytes: 0,
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::recording;
    use super::*;

    #[test]
    fn parts_of_a_program_add_up_to_it() {
        let start = Instant::now();
        let timelines = timelines(&recording(start));
        let [core] = &timelines[..] else { panic!("{timelines:?}") };
        let ms = |at: Instant| (at - start).as_millis();
        let found: Vec<_> = core.parts.iter().map(|it| (ms(it.start), ms(it.end))).collect();
        let expect = [(10, 40), (40, 50), (50, 80), (80, 90), (110, 140), (130, 160), (160, 190)];
        assert_eq!(found, expect);
        let shares: Vec<u128> = core.parts.iter().map(|part| part.share.as_millis()).collect();
        assert_eq!(shares, [30, 10, 30, 10, 25, 25, 30]);
        let layers = core.parts.iter().all(|part| part.layer == "layer.0");
        assert!(layers, "{core:?}");
    }

    #[test]
    fn a_program_begins_when_the_one_before_has_ended() {
        let start = Instant::now();
        let mut recording = recording(start);
        // Both were launched at once.
        recording.programs[1].start = start;
        let timelines = timelines(&recording);
        let starts = timelines[0].programs.iter().map(|run| (run.start - start).as_millis());
        assert_eq!(starts.collect::<Vec<_>>(), [10, 90]);
    }
}
