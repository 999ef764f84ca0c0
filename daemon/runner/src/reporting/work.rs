//! Rates of floating-point operations and communication.

use std::time::{Duration, Instant};

use super::window::Window;
use crate::session::Work;

/// The work of the programs launched in a window of time.
#[derive(Debug)]
pub(super) struct WorkMeter {
    started: Instant,
    launched: Window<Work>,
}

impl WorkMeter {
    pub(super) fn new(now: Instant, window: Duration) -> WorkMeter {
        WorkMeter { started: now, launched: Window::new(window) }
    }

    /// Adds a program that is launched now. The first one starts the clock.
    pub(super) fn add(&mut self, now: Instant, work: Work) {
        if self.launched.is_empty() {
            self.started = now;
        }
        self.launched.add(now, work);
    }

    /// Returns the work per second over the window, or since the first program if that is shorter.
    pub(super) fn rate(&self, now: Instant) -> Work {
        let seconds = self.launched.length.min(now.duration_since(self.started)).as_secs_f64();
        if seconds <= 0.0 {
            return Work::default();
        }
        let mut sum = Work::default();
        self.launched.recent(now).for_each(|work| sum += *work);
        sum * (1.0 / seconds)
    }
}

#[cfg(test)]
mod tests {
    use traind_xla::analysis::SentBytes;

    use super::*;

    #[test]
    fn the_rate_is_that_of_the_window() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut meter = WorkMeter::new(start, Duration::from_secs(60));
        assert_eq!(meter.rate(at(5)), Work::default());
        let sent = SentBytes { tensor: 8.0, ..SentBytes::default() };
        let work = Work { executed: 30.0, model: 20.0, sent };
        for second in 100..=140 {
            meter.add(at(second), work);
        }
        let soon = meter.rate(at(140));
        assert!((soon.executed - 41.0 * 30.0 / 40.0).abs() < 1e-9, "{soon:?}");
        let later = meter.rate(at(190));
        assert!((later.model - 11.0 * 20.0 / 60.0).abs() < 1e-9, "{later:?}");
        assert!((later.sent.tensor - 11.0 * 8.0 / 60.0).abs() < 1e-9, "{later:?}");
        assert_eq!(meter.rate(at(500)), Work::default());
    }
}
