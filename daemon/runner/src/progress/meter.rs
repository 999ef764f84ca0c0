//! Averages over the steps since the last log.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use traind_proto::v1::StepTime;

/// The samples, tokens and FLOPs of a step or of a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StepCounts {
    pub samples: u64,
    /// Tokens that are no padding.
    pub tokens: u64,
    /// Tokens with the padding of their batch, without those of targets.
    pub padded_tokens: u64,
    /// FLOPs as transformers' `floating_point_ops` counts them.
    pub flos: f64,
}

impl StepCounts {
    pub(crate) fn add(&mut self, other: StepCounts) {
        self.samples += other.samples;
        self.tokens += other.tokens;
        self.padded_tokens += other.padded_tokens;
        self.flos += other.flos;
    }
}

/// Sums over finished steps, as a checkpoint stores them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct WindowSums {
    loss: f64,
    /// The task's metrics of steps, where it has any.
    #[serde(default)]
    metrics: Vec<f64>,
    samples: u64,
    tokens: u64,
    /// Always 0; kept for checkpoints of earlier versions.
    #[serde(default)]
    flos: f64,
}

/// Sums over a window of steps. Time counts in the window in which it passes, which for a step in
/// flight may precede the window in which the step ends.
#[derive(Debug)]
pub(crate) struct Meter {
    since: Instant,
    window: Window,
    time: Spent,
}

/// The sums that a later attempt continues.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    steps: u32,
    sum: WindowSums,
}

/// The parts of a window's wall time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub input_wait: Duration,
    pub dispatch: Duration,
    pub compute: Duration,
    pub read_back: Duration,
    /// Decoding images, beside the others.
    pub decode: Duration,
}

/// Means and rates of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowAverages {
    pub loss: f64,
    /// The task's metrics, in their order; none before the first step.
    pub metrics: Vec<f64>,
    pub seconds_per_step: f64,
    pub samples_per_second: f64,
    pub tokens_per_second: f64,
    pub input_wait_share: f64,
    pub time: StepTime,
}

impl Meter {
    pub(crate) fn start() -> Meter {
        Meter::resume(Window::default())
    }

    /// Continues a window of an earlier attempt. Rates are of this attempt.
    pub(crate) fn resume(window: Window) -> Meter {
        Meter { since: Instant::now(), window, time: Spent::default() }
    }

    pub(crate) fn window(&self) -> Window {
        self.window.clone()
    }

    /// Starts to count time now.
    pub(crate) fn start_clock(&mut self) {
        self.since = Instant::now();
    }

    /// Adds time that has just passed.
    pub(crate) fn spend(&mut self, time: Spent) {
        self.time.input_wait += time.input_wait;
        self.time.dispatch += time.dispatch;
        self.time.compute += time.compute;
        self.time.read_back += time.read_back;
        self.time.decode += time.decode;
    }

    /// Adds a finished step.
    pub(crate) fn add(&mut self, loss: f64, metrics: &[f64], counts: StepCounts) {
        self.window.steps += 1;
        self.window.sum.loss += loss;
        self.window.sum.metrics.resize(metrics.len(), 0.0);
        self.window.sum.metrics.iter_mut().zip(metrics).for_each(|(sum, value)| *sum += value);
        self.window.sum.samples += counts.samples;
        self.window.sum.tokens += counts.tokens;
    }

    /// Returns the averages of the window so far.
    pub(crate) fn averages(&self) -> WindowAverages {
        let seconds = self.since.elapsed().as_secs_f64();
        let Window { steps, sum } = &self.window;
        let steps = f64::from(*steps.max(&1));
        let mean = |duration: Duration| duration.as_secs_f64() / steps;
        WindowAverages {
            loss: sum.loss / steps,
            metrics: sum.metrics.iter().map(|sum| sum / steps).collect(),
            seconds_per_step: seconds / steps,
            samples_per_second: sum.samples as f64 / seconds,
            tokens_per_second: sum.tokens as f64 / seconds,
            input_wait_share: self.time.input_wait.as_secs_f64() / seconds,
            time: StepTime {
                input_wait_seconds: mean(self.time.input_wait),
                dispatch_seconds: mean(self.time.dispatch),
                compute_seconds: mean(self.time.compute),
                read_back_seconds: mean(self.time.read_back),
                decode_seconds: mean(self.time.decode),
            },
        }
    }

    /// Starts the next window.
    pub(crate) fn restart(&mut self) {
        *self = Meter::start();
    }

    /// Excludes time spent on something else, such as an evaluation.
    pub(crate) fn exclude(&mut self, duration: Duration) {
        self.since += duration;
    }
}
