//! A profile of some steps: their phases, the programs on each core, and the kernels inside of them, as numbers and as
//! a trace. Nothing is recorded until a profile is requested; then the training loop begins and ends the recording
//! between two steps, when none is in flight.
//!
//! Imports `rates`.

mod limits;
mod summary;
mod timeline;
mod trace;

use std::collections::HashMap;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use traind_pjrt::{KernelTime, KernelTimes};
use traind_proto::v1::Phase;
use traind_xla::stablehlo::KernelSite;

use crate::session::{CoreEnded, LaunchReport};

pub(crate) use limits::{CoreLimits, HostCores};
pub(crate) use summary::summary;
pub(crate) use trace::trace;

/// Events of each kind that a recording keeps; later ones are left out.
const EVENTS_MAX: usize = 1 << 18;

/// How long the end of a recording waits for the plugin to say that programs have ended, which they have by then.
const NOTICE_MAX: Duration = Duration::from_secs(5);

/// The kernels that a program calls, by the numbers of their calls.
type Sites = HashMap<i64, KernelSite>;

/// A cloneable handle, by which the service requests a profile and the parts of a run report to it.
#[derive(Clone, Debug)]
pub(crate) struct Profiler {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Debug)]
struct Shared {
    /// The phase of the training loop.
    phase: Phase,
    /// The sites of programs by their keys.
    sites: HashMap<String, Arc<Sites>>,
    state: State,
}

#[derive(Debug)]
enum State {
    Off,
    Requested(Request),
    Recording(Box<Active>),
    /// Training has ended, so that no step will be recorded.
    Ended,
}

#[derive(Debug)]
struct Request {
    steps: u64,
    answer: oneshot::Sender<Recording>,
}

#[derive(Debug)]
struct Active {
    recording: Recording,
    /// The step after which the recording ends.
    last_step: u64,
    /// `None` where the process records kernels for another run.
    kernels: Option<KernelTimes>,
    /// Programs that end, and a sender for those that are launched.
    ended: Receiver<ProgramRun>,
    launched: Sender<ProgramRun>,
    answer: oneshot::Sender<Recording>,
}

/// The events of some steps.
#[derive(Debug)]
pub(crate) struct Recording {
    /// The first step, counted from 1.
    first_step: u64,
    start: Instant,
    end: Instant,
    /// The phases of the training loop with their starts, the first at `start`.
    phases: Vec<(Phase, Instant)>,
    /// Each step with its end.
    steps: Vec<(u64, Instant)>,
    spans: Vec<Span>,
    programs: Vec<ProgramRun>,
    kernels: Vec<KernelTime>,
    /// Events for which there was no room.
    lost: u64,
    sites: HashMap<String, Arc<Sites>>,
    limits: CoreLimits,
}

/// A time that a thread of the loader spent on something.
#[derive(Clone, Debug)]
struct Span {
    /// The name of the thread's track.
    track: &'static str,
    name: &'static str,
    start: Instant,
    end: Instant,
}

/// A run of a program on one core.
#[derive(Clone, Debug)]
struct ProgramRun {
    program: Arc<str>,
    /// The core among those of this host.
    core: usize,
    /// The earliest time at which the core may have begun it.
    start: Instant,
    end: Instant,
}

/// Why a profile is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("another profile of the job is being recorded; try again when it is done")]
    Busy,
    #[error("the job takes no more training steps")]
    Ended,
}

impl Profiler {
    pub(crate) fn new() -> Profiler {
        let shared = Shared { phase: Phase::Idle, sites: HashMap::new(), state: State::Off };
        Profiler { shared: Arc::new(Mutex::new(shared)) }
    }

    /// Requests a profile of the next `steps`. The answer is dropped if training ends before it begins.
    pub(crate) fn request(&self, steps: u64) -> Result<oneshot::Receiver<Recording>, Refusal> {
        let mut shared = self.lock();
        match &shared.state {
            State::Ended => return Err(Refusal::Ended),
            // One whose caller has left makes room for another.
            State::Requested(request) if !request.answer.is_closed() => return Err(Refusal::Busy),
            State::Recording(_) => return Err(Refusal::Busy),
            State::Requested(_) | State::Off => {}
        }
        let (answer, recording) = oneshot::channel();
        shared.state = State::Requested(Request { steps, answer });
        Ok(recording)
    }

    /// Whether a recording begins or ends after so many steps.
    pub(crate) fn is_due(&self, steps: u64) -> bool {
        match &self.lock().state {
            State::Requested(_) => true,
            State::Recording(active) => steps >= active.last_step || active.answer.is_closed(),
            State::Off | State::Ended => false,
        }
    }

    /// Begins or ends a recording where that is due after `steps` steps, while no step is in flight. `limits`: what a
    /// core could reach at best.
    pub(crate) fn between_steps(&self, steps: u64, limits: impl FnOnce() -> CoreLimits) {
        let mut shared = self.lock();
        match std::mem::replace(&mut shared.state, State::Off) {
            State::Requested(request) => shared.begin(steps, request),
            State::Recording(active) if active.answer.is_closed() => {}
            State::Recording(active) if steps >= active.last_step => {
                drop(shared);
                self.finish(*active, limits);
            }
            other => shared.state = other,
        }
    }

    /// No more steps will be recorded. A recording that has begun has those that were taken.
    pub(crate) fn end(&self, limits: impl FnOnce() -> CoreLimits) {
        let state = std::mem::replace(&mut self.lock().state, State::Ended);
        if let State::Recording(active) = state
            && !active.recording.steps.is_empty()
        {
            self.finish(*active, limits);
        }
    }

    fn finish(&self, active: Active, limits: impl FnOnce() -> CoreLimits) {
        let Active { mut recording, kernels, answer, ended, launched, .. } = active;
        // Results of a program are there before the plugin reports its end, which drops the program's sender.
        drop(launched);
        while let Ok(run) = ended.recv_timeout(NOTICE_MAX) {
            recording.keep(|it| &mut it.programs, run);
        }
        recording.end = Instant::now();
        if let Some(recorded) = kernels.map(KernelTimes::finish) {
            recording.kernels = recorded.times;
            recording.lost += recorded.lost;
        }
        recording.sites.clone_from(&self.lock().sites);
        recording.limits = limits();
        // The caller may have left.
        let _ = answer.send(recording);
    }

    /// The training loop begins a phase.
    pub(crate) fn enter(&self, phase: Phase) {
        self.enter_before(phase, Duration::ZERO);
    }

    /// The training loop began a phase so long ago.
    pub(crate) fn enter_before(&self, phase: Phase, ago: Duration) {
        let mut shared = self.lock();
        shared.phase = phase;
        if let State::Recording(active) = &mut shared.state {
            let recording = &mut active.recording;
            let (before, last) = *recording.phases.last().unwrap_or(&(phase, recording.start));
            if before == phase {
                return;
            }
            let start = Instant::now().checked_sub(ago).unwrap_or(last).max(last);
            recording.keep(|it| &mut it.phases, (phase, start));
        }
    }

    /// A step has ended.
    pub(crate) fn step_ended(&self, step: u64) {
        self.record(|recording| recording.keep(|it| &mut it.steps, (step, Instant::now())));
    }

    /// Runs what a thread of the loader spends time on.
    pub(crate) fn timed<T>(
        &self,
        track: &'static str,
        name: &'static str,
        run: impl FnOnce() -> T,
    ) -> T {
        let start = Instant::now();
        let result = run();
        self.record(|recording| {
            let start = start.max(recording.start);
            recording.keep(|it| &mut it.spans, Span { track, name, start, end: Instant::now() });
        });
        result
    }

    /// A program was compiled.
    pub(crate) fn program_compiled(&self, program: &str, sites: &[KernelSite]) {
        let sites: Sites = sites.iter().map(|site| (site.call as i64, site.clone())).collect();
        self.lock().sites.insert(program.to_owned(), Arc::new(sites));
    }

    /// A program was launched. Returns what to call when a core has run it, if that is recorded.
    pub(crate) fn program_launched(&self, launch: &LaunchReport<'_>) -> Option<CoreEnded> {
        let State::Recording(active) = &self.lock().state else { return None };
        let (launched, program, start) =
            (active.launched.clone(), Arc::from(launch.program), launch.start);
        Some(Arc::new(move |core| {
            let run =
                ProgramRun { program: Arc::clone(&program), core, start, end: Instant::now() };
            // The recording's caller may have left.
            let _ = launched.send(run);
        }))
    }

    fn record(&self, record: impl FnOnce(&mut Recording)) {
        if let State::Recording(active) = &mut self.lock().state {
            record(&mut active.recording);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn begin(&mut self, done: u64, Request { steps, answer }: Request) {
        let kernels = KernelTimes::start();
        let now = Instant::now();
        let recording = Recording {
            first_step: done + 1,
            start: now,
            end: now,
            phases: vec![(self.phase, now)],
            steps: Vec::new(),
            spans: Vec::new(),
            programs: Vec::new(),
            kernels: Vec::new(),
            lost: 0,
            sites: HashMap::new(),
            limits: CoreLimits::default(),
        };
        let last_step = done + steps;
        let (launched, ended) = mpsc::channel();
        let active = Active { recording, last_step, kernels, ended, launched, answer };
        self.state = State::Recording(Box::new(active));
    }
}

impl Recording {
    fn keep<T>(&mut self, list: impl FnOnce(&mut Recording) -> &mut Vec<T>, event: T) {
        let events = list(self);
        match events.len() < EVENTS_MAX {
            true => events.push(event),
            false => self.lost += 1,
        }
    }

    fn wall(&self) -> Duration {
        self.end - self.start
    }

    /// The phases, each with its time.
    fn phase_times(&self) -> impl Iterator<Item = (Phase, Range<Instant>)> {
        let ends = self.phases.iter().skip(1).map(|(_, start)| *start).chain([self.end]);
        self.phases.iter().zip(ends).map(|((phase, start), end)| (*phase, *start..end))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A recording of two steps on one core, which start at `start`: 100 ms each, of which the program takes 80 and its
    /// kernels 60, and of those two at once 10.
    pub(crate) fn recording(start: Instant) -> Recording {
        let at = |ms| start + Duration::from_millis(ms);
        let kernel = |call, from, to| KernelTime {
            kernel: "traind.product",
            call: Some(call),
            device: Some(0),
            thread: 1,
            start: at(from),
            end: at(to),
            bytes: 1_000,
        };
        let site = |call: usize, scope: &str, is_backward, flops| {
            let (scope, operands) = (scope.to_owned(), "f32[2,3]".to_owned());
            let operation = "matmul";
            (call as i64, KernelSite { call, scope, is_backward, operation, operands, flops })
        };
        let sites = [site(7, "layer.0", false, 4e6), site(9, "layer.0", true, 8e6)];
        let run = |from, to| ProgramRun {
            program: Arc::from("train_step-2x3"),
            core: 0,
            start: at(from),
            end: at(to),
        };
        Recording {
            first_step: 5,
            start,
            end: at(200),
            phases: [
                (Phase::Input, 0),
                (Phase::Dispatch, 5),
                (Phase::Compute, 10),
                (Phase::Input, 100),
                (Phase::Compute, 110),
            ]
            .map(|(phase, ms)| (phase, at(ms)))
            .to_vec(),
            steps: vec![(5, at(100)), (6, at(200))],
            spans: vec![Span { track: "loader", name: "collate", start: at(1), end: at(3) }],
            programs: vec![run(10, 90), run(110, 190)],
            kernels: vec![
                kernel(7, 10, 40),
                kernel(9, 50, 80),
                kernel(7, 110, 140),
                KernelTime { thread: 2, ..kernel(9, 130, 160) },
            ],
            lost: 0,
            sites: HashMap::from([("train_step-2x3".to_owned(), Arc::new(sites.into()))]),
            limits: CoreLimits { flops: 1e11, bytes_per_second: 1e10 },
        }
    }

    #[test]
    fn a_recording_begins_and_ends_between_steps() {
        let profiler = Profiler::new();
        profiler.enter(Phase::Input);
        assert!(!profiler.is_due(3));
        let mut answer = profiler.request(2).unwrap();
        assert_eq!(profiler.request(1).unwrap_err(), Refusal::Busy);
        assert!(profiler.is_due(3));
        profiler.between_steps(3, CoreLimits::default);
        for step in 4..=5 {
            assert!(!profiler.is_due(step - 1));
            profiler.enter(Phase::Dispatch);
            profiler.enter(Phase::Input);
            profiler.step_ended(step);
        }
        assert!(profiler.is_due(5) && answer.try_recv().is_err());
        profiler.between_steps(5, || CoreLimits { flops: 2.0, bytes_per_second: 3.0 });
        let recording = answer.try_recv().unwrap();
        let phases: Vec<Phase> = recording.phases.iter().map(|(phase, _)| *phase).collect();
        let (input, dispatch) = (Phase::Input, Phase::Dispatch);
        assert_eq!(phases, [input, dispatch, input, dispatch, input]);
        assert_eq!((recording.first_step, recording.steps.len()), (4, 2));
        assert_eq!(recording.limits.flops, 2.0);
        assert!(!profiler.is_due(6));
    }

    #[test]
    fn the_end_of_training_ends_a_recording_and_refuses_the_next_one() {
        let profiler = Profiler::new();
        let mut answer = profiler.request(9).unwrap();
        profiler.between_steps(0, CoreLimits::default);
        profiler.step_ended(1);
        profiler.end(CoreLimits::default);
        assert_eq!(answer.try_recv().unwrap().steps.len(), 1);
        assert_eq!(profiler.request(1).unwrap_err(), Refusal::Ended);
    }

    #[test]
    fn a_recording_has_the_programs_whose_ends_are_told_late() {
        let profiler = Profiler::new();
        let mut answer = profiler.request(1).unwrap();
        profiler.between_steps(0, CoreLimits::default);
        let launch = LaunchReport { program: "train_step-2x3", start: Instant::now() };
        let ended = profiler.program_launched(&launch).unwrap();
        profiler.step_ended(1);
        let plugin = std::thread::spawn(move || ended(1));
        profiler.between_steps(1, CoreLimits::default);
        plugin.join().unwrap();
        let programs = answer.try_recv().unwrap().programs;
        assert_eq!(programs.iter().map(|run| run.core).collect::<Vec<_>>(), [1]);
    }

    #[test]
    fn a_request_whose_caller_has_left_makes_room_for_another() {
        let profiler = Profiler::new();
        drop(profiler.request(9).unwrap());
        let answer = profiler.request(1).unwrap();
        profiler.between_steps(0, CoreLimits::default);
        drop(answer);
        assert!(profiler.is_due(0), "the recording has no reader");
        profiler.between_steps(0, CoreLimits::default);
        assert!(profiler.request(1).is_ok());
    }
}
