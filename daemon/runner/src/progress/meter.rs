//! Averages over the steps since the last log.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use traind_proto::v1::StepTime;

/// What one finished step contributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct FinishedStep {
    pub loss: f64,
    pub samples: u64,
    pub tokens: u64,
    /// Operations by the Trainer's count: see [`crate::work::trainer_flos`].
    #[serde(default)]
    pub flos: f64,
}

/// Sums over a window of steps. Times count in the window in which they pass,
/// which for a step in flight may be the one before that in which it ends.
#[derive(Debug)]
pub(crate) struct Meter {
    since: Instant,
    window: Window,
    time: Spent,
}

/// The part of the sums that a later attempt goes on with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Window {
    steps: u32,
    sum: FinishedStep,
}

/// Where the wall time of a window went.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spent {
    pub input_wait: Duration,
    pub dispatch: Duration,
    pub compute: Duration,
    pub read_back: Duration,
}

/// Means and rates of a window.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WindowFigures {
    pub loss: f64,
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

    /// Goes on in a window that another attempt began. Rates are of this one.
    pub(crate) fn resume(window: Window) -> Meter {
        Meter { since: Instant::now(), window, time: Spent::default() }
    }

    pub(crate) fn window(&self) -> Window {
        self.window
    }

    /// Nothing passed before now that is to count.
    pub(crate) fn start_clock(&mut self) {
        self.since = Instant::now();
    }

    /// Time that has just passed.
    pub(crate) fn spend(&mut self, time: Spent) {
        self.time.input_wait += time.input_wait;
        self.time.dispatch += time.dispatch;
        self.time.compute += time.compute;
        self.time.read_back += time.read_back;
    }

    /// A step that has ended.
    pub(crate) fn finish(&mut self, step: FinishedStep) {
        self.window.steps += 1;
        self.window.sum.loss += step.loss;
        self.window.sum.samples += step.samples;
        self.window.sum.tokens += step.tokens;
    }

    /// The figures of the window so far.
    pub(crate) fn figures(&self) -> WindowFigures {
        let seconds = self.since.elapsed().as_secs_f64();
        let Window { steps, sum } = self.window;
        let steps = f64::from(steps.max(1));
        let mean = |duration: Duration| duration.as_secs_f64() / steps;
        WindowFigures {
            loss: sum.loss / steps,
            seconds_per_step: seconds / steps,
            samples_per_second: sum.samples as f64 / seconds,
            tokens_per_second: sum.tokens as f64 / seconds,
            input_wait_share: self.time.input_wait.as_secs_f64() / seconds,
            time: StepTime {
                input_wait_seconds: mean(self.time.input_wait),
                dispatch_seconds: mean(self.time.dispatch),
                compute_seconds: mean(self.time.compute),
                read_back_seconds: mean(self.time.read_back),
            },
        }
    }

    /// Ends the window and begins the next.
    pub(crate) fn restart(&mut self) {
        *self = Meter::start();
    }

    /// Leaves time spent on something else, such as an evaluation, out.
    pub(crate) fn exclude(&mut self, duration: Duration) {
        self.since += duration;
    }
}
