//! Averages over the steps since the last log.

use std::time::{Duration, Instant};

use traind_proto::v1::StepTime;

/// What one finished step contributes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FinishedStep {
    pub loss: f64,
    pub samples: u64,
    pub tokens: u64,
}

/// Sums over a window of steps. Times count in the window in which they pass,
/// which for a step in flight may be the one before that in which it ends.
#[derive(Debug)]
pub(crate) struct Meter {
    since: Instant,
    steps: u32,
    sum: FinishedStep,
    time: Spent,
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
        Meter {
            since: Instant::now(),
            steps: 0,
            sum: FinishedStep::default(),
            time: Spent::default(),
        }
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
        self.steps += 1;
        self.sum.loss += step.loss;
        self.sum.samples += step.samples;
        self.sum.tokens += step.tokens;
    }

    /// The figures of the window so far.
    pub(crate) fn figures(&self) -> WindowFigures {
        let seconds = self.since.elapsed().as_secs_f64();
        let steps = f64::from(self.steps.max(1));
        let mean = |duration: Duration| duration.as_secs_f64() / steps;
        WindowFigures {
            loss: self.sum.loss / steps,
            seconds_per_step: seconds / steps,
            samples_per_second: self.sum.samples as f64 / seconds,
            tokens_per_second: self.sum.tokens as f64 / seconds,
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
