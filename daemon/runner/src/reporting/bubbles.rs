//! The share of time in which the stages of a pipeline wait for each other.

use std::time::{Duration, Instant};

use super::window::Window;
use crate::session::PipelineTime;

/// The batches that passed in a window of time.
#[derive(Debug)]
pub(super) struct BubbleMeter {
    passed: Window<PipelineTime>,
}

impl BubbleMeter {
    pub(super) fn new(window: Duration) -> BubbleMeter {
        BubbleMeter { passed: Window::new(window) }
    }

    pub(super) fn add(&mut self, now: Instant, time: PipelineTime) {
        self.passed.add(now, time);
    }

    /// The share, from 0 to 1, of the batches' time that a stage was idle.
    pub(super) fn share(&self, now: Instant, stage: usize) -> f64 {
        let (mut span, mut busy) = (Duration::ZERO, Duration::ZERO);
        for time in self.passed.recent(now) {
            span += time.span;
            busy += time.busy.get(stage).copied().unwrap_or_default();
        }
        if span.is_zero() {
            return 0.0;
        }
        (1.0 - busy.as_secs_f64() / span.as_secs_f64()).max(0.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_that_of_the_batches_in_the_window() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut meter = BubbleMeter::new(Duration::from_secs(60));
        assert_eq!(meter.share(at(0), 0), 0.0);
        let time = |busy: [u64; 2]| PipelineTime {
            span: Duration::from_secs(4),
            busy: busy.map(Duration::from_secs).to_vec(),
        };
        meter.add(at(10), time([4, 0]));
        meter.add(at(70), time([3, 1]));
        assert_eq!([0, 1].map(|stage| meter.share(at(70), stage)), [0.125, 0.875]);
        assert_eq!([0, 1].map(|stage| meter.share(at(80), stage)), [0.25, 0.75]);
        assert_eq!(meter.share(at(200), 1), 0.0);
    }
}
