//! Averages over the steps since the last log.

use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use traind_proto::v1::StepTime;

/// The batches, samples, tokens and FLOPs of a step or of a part of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct StepCounts {
    pub batches: u64,
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
        self.batches += other.batches;
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
    /// The task's metrics of batches, where it has any; of steps where `batches` is missing.
    #[serde(default)]
    metrics: Vec<f64>,
    /// Batches of the steps. Checkpoints of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    batches: Option<u64>,
    samples: u64,
    tokens: u64,
    /// Always 0; kept for checkpoints of earlier versions.
    #[serde(default)]
    flos: f64,
}

impl WindowSums {
    /// Adds a step of so many batches behind the others, which are `steps`. Where their batches are not known,
    /// they have as many each.
    fn add_metrics(&mut self, means: &[f64], batches: u64, steps: u64) {
        if self.batches.is_none() {
            self.metrics.iter_mut().for_each(|sum| *sum *= batches as f64);
        }
        let earlier = self.batches.unwrap_or(steps * batches);
        self.batches = Some(earlier + batches);
        self.metrics.resize(means.len(), 0.0);
        let values = means.iter().map(|mean| mean * batches as f64);
        self.metrics.iter_mut().zip(values).for_each(|(sum, value)| *sum += value);
    }

    /// The means of the metrics over the batches of so many steps.
    fn metric_means(&self, steps: f64) -> Vec<f64> {
        let batches = self.batches.map_or(steps, |batches| batches.max(1) as f64);
        self.metrics.iter().map(|sum| sum / batches).collect()
    }
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

    /// Adds a finished step, with the means of its metrics over its batches.
    pub(crate) fn add(&mut self, loss: f64, metrics: &[f64], counts: StepCounts) {
        let Window { steps, sum } = &mut self.window;
        sum.add_metrics(metrics, counts.batches, u64::from(*steps));
        *steps += 1;
        sum.loss += loss;
        sum.samples += counts.samples;
        sum.tokens += counts.tokens;
    }

    /// Returns the averages of the window so far.
    pub(crate) fn averages(&self) -> WindowAverages {
        let seconds = self.since.elapsed().as_secs_f64();
        let Window { steps, sum } = &self.window;
        let steps = f64::from(*steps.max(&1));
        let mean = |duration: Duration| duration.as_secs_f64() / steps;
        WindowAverages {
            loss: sum.loss / steps,
            metrics: sum.metric_means(steps),
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The last step of an epoch has fewer batches, which count alike.
    #[test]
    fn metrics_are_means_over_batches() {
        let counts = |batches| StepCounts { batches, ..StepCounts::default() };
        let mut meter = Meter::start();
        meter.add(1.0, &[2.0, 4.0], counts(3));
        meter.add(3.0, &[6.0, 0.0], counts(1));
        let averages = meter.averages();
        assert_eq!((averages.loss, averages.metrics), (2.0, vec![3.0, 3.0]));
        let window = serde_json::to_string(&meter.window()).unwrap();
        let mut resumed = Meter::resume(serde_json::from_str(&window).unwrap());
        resumed.add(2.0, &[5.0, 5.0], counts(4));
        assert_eq!(resumed.averages().metrics, vec![4.0, 4.0]);
    }

    #[test]
    fn windows_of_earlier_versions_have_steps_alone() {
        let text =
            r#"{"steps": 2, "sum": {"loss": 4.0, "metrics": [6.0], "samples": 8, "tokens": 80}}"#;
        let mut meter = Meter::resume(serde_json::from_str(text).unwrap());
        assert_eq!(meter.averages().metrics, vec![3.0]);
        meter.add(2.0, &[6.0], StepCounts { batches: 4, ..StepCounts::default() });
        assert_eq!(meter.averages().metrics, vec![4.0]);
    }
}
