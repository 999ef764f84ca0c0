//! Live status of the runner: phase, step, memory and device utilization.
//!
//! The cores of a job work on the same batch, so they share one meter of utilization. Stages of a pipeline differ in
//! how long they wait.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use traind_proto::v1::{MemoryUsage, Phase, StageUsage};

use super::bubbles::BubbleMeter;
use super::work::WorkMeter;
use crate::profile::Profiler;
use crate::session::{PipelineTime, Work};

/// The longest window of a rate.
const HISTORY: Duration = Duration::from_secs(60);

/// A cloneable handle, written by the training loop and read by the service.
#[derive(Clone, Debug)]
pub(crate) struct Activity {
    shared: Arc<Mutex<Shared>>,
    /// Records phases, where a profile was requested.
    pub profiler: Profiler,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Status {
    pub phase: Phase,
    pub step: u64,
    pub max_steps: u64,
    pub programs_compiled: usize,
    pub programs_total: usize,
    pub memory: MemoryUsage,
    /// The memory of a core in bytes, 0 where unknown.
    pub memory_total: u64,
    pub utilization_1s: f64,
    pub utilization_1m: f64,
    /// Work per second, averaged over the last minute.
    pub work: Work,
    /// The peak FLOP/s of a core, 0 where unknown.
    pub peak_flops: f64,
}

#[derive(Debug)]
struct Shared {
    phase: Phase,
    /// Whether the cores are being opened and tried, which compiles programs, besides what the run does meanwhile.
    is_trying_cores: bool,
    step: u64,
    max_steps: u64,
    programs_compiled: usize,
    programs_total: usize,
    memory: MemoryUsage,
    memory_total: u64,
    peak_flops: f64,
    energy_joules: Option<f64>,
    busy: BusyMeter,
    work: WorkMeter,
    stages: CoreStages,
    bubbles: BubbleMeter,
}

/// The pipeline stages of this host's cores.
#[derive(Clone, Debug, Default)]
pub(crate) struct CoreStages {
    /// The stage of each core, among the stages of this host; empty without a pipeline.
    pub of_cores: Vec<usize>,
    /// The first of them among those of all hosts.
    pub first: usize,
    /// The number of stages of all hosts.
    pub count: usize,
}

impl Activity {
    pub(crate) fn new() -> Activity {
        let shared = Shared {
            phase: Phase::Idle,
            is_trying_cores: false,
            step: 0,
            max_steps: 0,
            programs_compiled: 0,
            programs_total: 0,
            memory: MemoryUsage::default(),
            memory_total: 0,
            peak_flops: 0.0,
            energy_joules: None,
            busy: BusyMeter::new(Instant::now()),
            work: WorkMeter::new(Instant::now(), HISTORY),
            stages: CoreStages::default(),
            bubbles: BubbleMeter::new(HISTORY),
        };
        Activity { shared: Arc::new(Mutex::new(shared)), profiler: Profiler::new() }
    }

    /// Returns the phase that ends.
    pub(crate) fn enter(&self, phase: Phase) -> Phase {
        self.profiler.enter(phase);
        std::mem::replace(&mut self.lock().phase, phase)
    }

    /// Opens cores and tries them by small programs, each of which takes a compiler minutes on some
    /// platforms. The run is in the phase of compiling meanwhile, where it is idle besides.
    pub(crate) fn trying_cores<T>(&self, open: impl FnOnce() -> T) -> T {
        self.lock().is_trying_cores = true;
        let opened = open();
        self.lock().is_trying_cores = false;
        opened
    }

    pub(crate) fn set_step(&self, step: u64, max_steps: u64) {
        let mut shared = self.lock();
        shared.step = step;
        shared.max_steps = max_steps;
    }

    /// Sets how many of the run's programs are compiled.
    pub(crate) fn set_programs(&self, compiled: usize, total: usize) {
        let mut shared = self.lock();
        (shared.programs_compiled, shared.programs_total) = (compiled, total);
    }

    /// Sets the memory that the job uses on each core.
    pub(crate) fn set_memory(&self, memory: MemoryUsage) {
        self.lock().memory = memory;
    }

    /// Sets the memory of a core in bytes.
    pub(crate) fn set_memory_total(&self, bytes: u64) {
        self.lock().memory_total = bytes;
    }

    /// Sets the peak FLOP/s of a core.
    pub(crate) fn set_peak_flops(&self, peak_flops: f64) {
        self.lock().peak_flops = peak_flops;
    }

    /// Sets the pipeline stage of each core.
    pub(crate) fn set_stages(&self, stages: CoreStages) {
        self.lock().stages = stages;
    }

    /// Counts a batch that has passed through the pipeline.
    pub(crate) fn batch_passed(&self, time: PipelineTime) {
        self.lock().bubbles.add(Instant::now(), time);
    }

    /// The pipeline stage of each core; empty without a pipeline.
    pub(crate) fn stages(&self) -> Vec<StageUsage> {
        let now = Instant::now();
        let shared = self.lock();
        let CoreStages { of_cores, first, count } = &shared.stages;
        let usage = |stage: &usize| StageUsage {
            stage: (first + stage) as u32,
            stages: *count as u32,
            bubble_percent: 100.0 * shared.bubbles.share(now, *stage),
        };
        of_cores.iter().map(usage).collect()
    }

    /// Sets the energy that the job has used, in joules.
    pub(crate) fn set_energy(&self, joules: f64) {
        self.lock().energy_joules = Some(joules);
    }

    /// The energy that the job had used when the daemon last reported it.
    pub(crate) fn energy_joules(&self) -> Option<f64> {
        self.lock().energy_joules
    }

    /// Counts a program that was launched; `work` is what it does on each core.
    pub(crate) fn program_launched(&self, work: Work) {
        let now = Instant::now();
        let mut shared = self.lock();
        shared.busy.begin(now);
        shared.work.add(now, work);
    }

    /// Counts a program that has ended.
    pub(crate) fn program_finished(&self) {
        self.lock().busy.end(Instant::now());
    }

    pub(crate) fn status(&self) -> Status {
        let now = Instant::now();
        let shared = self.lock();
        Status {
            phase: match shared.phase {
                Phase::Idle if shared.is_trying_cores => Phase::Compile,
                phase => phase,
            },
            step: shared.step,
            max_steps: shared.max_steps,
            programs_compiled: shared.programs_compiled,
            programs_total: shared.programs_total,
            memory: shared.memory,
            memory_total: shared.memory_total,
            work: shared.work.rate(now),
            peak_flops: shared.peak_flops,
            utilization_1s: shared.busy.share(now, Duration::from_secs(1)),
            utilization_1m: shared.busy.share(now, HISTORY),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Intervals in which at least one program was in flight.
#[derive(Debug)]
struct BusyMeter {
    started: Instant,
    in_flight: usize,
    since: Instant,
    ended: VecDeque<(Instant, Instant)>,
}

impl BusyMeter {
    fn new(now: Instant) -> BusyMeter {
        BusyMeter { started: now, in_flight: 0, since: now, ended: VecDeque::new() }
    }

    fn begin(&mut self, now: Instant) {
        if self.in_flight == 0 {
            self.since = now;
        }
        self.in_flight += 1;
    }

    fn end(&mut self, now: Instant) {
        self.in_flight = self.in_flight.saturating_sub(1);
        if self.in_flight == 0 {
            self.add((self.since, now));
        }
    }

    fn add(&mut self, interval: (Instant, Instant)) {
        while self.ended.front().is_some_and(|(_, end)| interval.1.duration_since(*end) > HISTORY) {
            self.ended.pop_front();
        }
        self.ended.push_back(interval);
    }

    /// The busy share, from 0 to 1, of the last `window` or of the time since the start.
    fn share(&self, now: Instant, window: Duration) -> f64 {
        let window = window.min(now.duration_since(self.started));
        if window.is_zero() {
            return 0.0;
        }
        let from = now - window;
        let current = (self.in_flight > 0).then_some((self.since, now));
        let busy: Duration = self
            .ended
            .iter()
            .copied()
            .chain(current)
            .map(|(begin, end)| end.saturating_duration_since(begin.max(from)))
            .sum();
        busy.as_secs_f64() / window.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_that_are_tried_are_not_idle() {
        let activity = Activity::new();
        let phase = || activity.status().phase;
        assert_eq!(phase(), Phase::Idle);
        activity.trying_cores(|| {
            assert_eq!(phase(), Phase::Compile);
            // Data are downloaded meanwhile, which ends before or after.
            activity.enter(Phase::Fetch);
            assert_eq!(phase(), Phase::Fetch);
            activity.enter(Phase::Idle);
            assert_eq!(phase(), Phase::Compile);
        });
        assert_eq!(phase(), Phase::Idle);
    }

    #[test]
    fn share_counts_overlapping_programs_once() {
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        let mut meter = BusyMeter::new(start);
        meter.begin(at(0));
        meter.begin(at(100));
        meter.end(at(200));
        meter.end(at(300));
        meter.begin(at(900));
        let share = meter.share(at(1000), Duration::from_secs(1));
        assert!((share - 0.4).abs() < 1e-9, "{share}");
        let last_half = meter.share(at(1000), Duration::from_millis(500));
        assert!((last_half - 0.2).abs() < 1e-9, "{last_half}");
    }
}
