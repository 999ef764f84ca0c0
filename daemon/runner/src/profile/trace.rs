//! A recording in Chrome's trace event format, which Perfetto opens: a process for the host with its threads, and one
//! for each core with its programs and their parts.
//!
//! <https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU>

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Instant;

use serde_json::{Map, Value, json};

use super::Recording;
use super::summary::{PLUGIN_CODE, phase_name};
use super::timeline::{CoreTimeline, Part, timelines};

const HOST: u64 = 1;
/// The process of the first core.
const FIRST_CORE: u64 = 100;
/// Threads of the host.
const STEPS: u64 = 1;
const PHASES: u64 = 2;
const FIRST_SPANS: u64 = 3;
/// Threads of a core.
const PROGRAMS: u64 = 1;
const PLUGIN: u64 = 2;
const FIRST_KERNELS: u64 = 3;

/// Writes the trace of a recording of the job `job` on `cores` of this host.
pub(crate) fn trace(recording: &Recording, job: &str, cores: &[u32]) -> Vec<u8> {
    let mut trace = Trace { start: recording.start, events: Vec::new() };
    trace.write_host(recording);
    for timeline in timelines(recording) {
        let number = cores.get(timeline.core).copied();
        trace.write_core(&timeline, number.unwrap_or(timeline.core as u32));
    }
    let trace = json!({
        "traceEvents": trace.events,
        "displayTimeUnit": "ms",
        "otherData": {"job": job, "first_step": recording.first_step},
    });
    trace.to_string().into_bytes()
}

struct Trace {
    /// Time 0.
    start: Instant,
    events: Vec<Value>,
}

/// A thread of a process, by the numbers that the trace gives them.
#[derive(Clone, Copy)]
struct Track {
    process: u64,
    thread: u64,
}

/// A thread of the host.
fn of_host(thread: u64) -> Track {
    Track { process: HOST, thread }
}

impl Trace {
    fn write_host(&mut self, recording: &Recording) {
        self.name_process(HOST, "host");
        self.name_thread(HOST, STEPS, "steps");
        let starts = [recording.start].into_iter().chain(recording.steps.iter().map(|it| it.1));
        for (start, (step, end)) in starts.zip(&recording.steps) {
            self.write(of_host(STEPS), &format!("step {step}"), start..*end, Map::new());
        }
        self.name_thread(HOST, PHASES, "training loop");
        for (phase, time) in recording.phase_times() {
            self.write(of_host(PHASES), phase_name(phase), time, Map::new());
        }
        let mut tracks: BTreeMap<&str, u64> = BTreeMap::new();
        for span in &recording.spans {
            let next = FIRST_SPANS + tracks.len() as u64;
            let thread = *tracks.entry(span.track).or_insert(next);
            if thread == next {
                self.name_thread(HOST, thread, span.track);
            }
            self.write(of_host(thread), span.name, span.start..span.end, Map::new());
        }
    }

    fn write_core(&mut self, timeline: &CoreTimeline, number: u32) {
        let process = FIRST_CORE + timeline.core as u64;
        self.name_process(process, &format!("core {number}"));
        self.name_thread(process, PROGRAMS, "programs");
        for run in &timeline.programs {
            let track = Track { process, thread: PROGRAMS };
            self.write(track, &run.program, run.start..run.end, Map::new());
        }
        let mut threads: BTreeMap<u32, u64> = BTreeMap::new();
        for part in &timeline.parts {
            let next = FIRST_KERNELS + threads.len() as u64;
            let thread = match part.kernel {
                None => PLUGIN,
                Some(_) => *threads.entry(part.thread).or_insert(next),
            };
            let (name, details) = described(part);
            self.write(Track { process, thread }, &name, part.start..part.end, details);
        }
        if !timeline.parts.is_empty() {
            self.name_thread(process, PLUGIN, "code of the plugin");
        }
        for (place, thread) in threads.into_values().enumerate() {
            self.name_thread(process, thread, &format!("operations {}", place + 1));
        }
    }

    fn name_process(&mut self, process: u64, name: &str) {
        self.events.push(json!({
            "ph": "M", "name": "process_name", "pid": process, "args": {"name": name},
        }));
        self.events.push(json!({
            "ph": "M", "name": "process_sort_index", "pid": process, "args": {"sort_index": process},
        }));
    }

    fn name_thread(&mut self, process: u64, thread: u64, name: &str) {
        self.events.push(json!({
            "ph": "M", "name": "thread_name", "pid": process, "tid": thread, "args": {"name": name},
        }));
        self.events.push(json!({
            "ph": "M", "name": "thread_sort_index", "pid": process, "tid": thread,
            "args": {"sort_index": thread},
        }));
    }

    fn write(
        &mut self,
        track: Track,
        name: &str,
        time: Range<Instant>,
        details: Map<String, Value>,
    ) {
        let microseconds =
            |from: Instant, to: Instant| to.saturating_duration_since(from).as_nanos() as f64 / 1e3;
        self.events.push(json!({
            "ph": "X",
            "name": name,
            "pid": track.process,
            "tid": track.thread,
            "ts": microseconds(self.start, time.start),
            "dur": microseconds(time.start, time.end),
            "args": details,
        }));
    }
}

/// The name of a part, and what is known of it.
fn described(part: &Part) -> (String, Map<String, Value>) {
    let mut details = Map::new();
    let mut detail = |name: &str, value: Value| details.insert(name.to_owned(), value);
    if !part.layer.is_empty() {
        detail("layer", json!(part.layer));
    }
    let Some(kernel) = part.kernel else {
        detail("before", json!(part.operation));
        return (PLUGIN_CODE.to_owned(), details);
    };
    detail("kernel", json!(kernel));
    detail("bytes", json!(part.bytes));
    let seconds = (part.end - part.start).as_secs_f64();
    if seconds > 0.0 {
        detail("bytes_per_second", json!(part.bytes as f64 / seconds));
        if part.flops > 0.0 {
            detail("flops", json!(part.flops));
            detail("flops_per_second", json!(part.flops / seconds));
        }
    }
    let name = match part.layer.as_str() {
        "" => part.operation.clone(),
        layer => format!("{layer} {}", part.operation),
    };
    (name, details)
}

#[cfg(test)]
mod tests {
    use super::super::tests::recording;
    use super::*;

    #[test]
    fn a_trace_has_a_track_for_each_thread_and_core() {
        let trace = trace(&recording(Instant::now()), "a", &[3]);
        let trace: Value = serde_json::from_slice(&trace).unwrap();
        assert_eq!(trace["otherData"], json!({"job": "a", "first_step": 5}));
        let events = trace["traceEvents"].as_array().unwrap();
        let named = |kind| {
            let named = events.iter().filter(move |event| event["name"] == kind);
            named.map(|event| event["args"]["name"].as_str().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(named("process_name"), ["host", "core 3"]);
        let threads = named("thread_name");
        let expect = ["steps", "training loop", "loader", "programs", "code of the plugin"];
        assert!(expect.iter().all(|name| threads.contains(name)), "{threads:?}");
        assert!(threads.contains(&"operations 2"), "{threads:?}");
        let last = events.iter().rfind(|it| it["name"] == "layer.0 matmul backward f32[2,3]");
        let last = last.unwrap();
        assert_eq!([&last["ts"], &last["dur"]], [&json!(130_000.0), &json!(30_000.0)]);
        let rate = last["args"]["flops_per_second"].as_f64().unwrap();
        assert!((rate - 8e6 / 0.03).abs() < 1.0, "{last}");
    }
}
