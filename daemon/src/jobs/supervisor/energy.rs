//! The energy of a job on this host, while a daemon follows its runner.

use std::time::{Duration, Instant};

/// How often counters are read.
const PERIOD: Duration = Duration::from_secs(2);
/// How often the energy is stored while the runner runs.
const STORE_EVERY: Duration = Duration::from_secs(30);

#[derive(Debug)]
pub(super) struct EnergyMeter {
    /// The newest reading of the counters, in joules.
    last: Option<f64>,
    /// Energy that is not stored yet, in joules.
    unstored: f64,
    read: Option<Instant>,
    stored: Instant,
}

impl EnergyMeter {
    pub(super) fn new(now: Instant) -> EnergyMeter {
        EnergyMeter { last: None, unstored: 0.0, read: None, stored: now }
    }

    /// Whether it is time to read the counters.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.read.is_none_or(|read| now >= read + PERIOD)
    }

    /// Adds the energy since the reading before; `None` if the host does not report it.
    pub(super) fn add(&mut self, now: Instant, joules: Option<f64>) {
        self.read = Some(now);
        let used = joules.zip(self.last).map(|(joules, last)| joules - last);
        // A driver that was loaded again counts from 0.
        self.unstored += used.unwrap_or_default().max(0.0);
        self.last = joules.or(self.last);
    }

    /// Energy besides that which is stored; `None` if the host has not reported any.
    pub(super) fn unstored(&self) -> Option<f64> {
        self.last.map(|_| self.unstored)
    }

    /// Takes the energy that is to be stored, if it is time or the run `ends`.
    pub(super) fn take(&mut self, now: Instant, ends: bool) -> Option<f64> {
        let is_time = ends || now >= self.stored + STORE_EVERY;
        let joules = self.unstored().filter(|_| is_time)?;
        (self.unstored, self.stored) = (0.0, now);
        Some(joules)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn energy_is_the_sum_of_what_counters_advance() {
        let start = Instant::now();
        let mut meter = EnergyMeter::new(start);
        assert!(meter.is_due(start));
        meter.add(start, None);
        assert_eq!(meter.take(start, true), None, "the host reports nothing");
        let at = |seconds| start + Duration::from_secs(seconds);
        assert!(!meter.is_due(at(1)) && meter.is_due(at(2)));
        for (time, joules) in [(2, Some(500.0)), (4, Some(620.0)), (6, None), (8, Some(650.0))] {
            meter.add(at(time), joules);
        }
        assert_eq!((meter.take(at(29), false), meter.unstored()), (None, Some(150.0)));
        assert_eq!(meter.take(at(30), false), Some(150.0));
        // Another driver.
        meter.add(at(32), Some(3.0));
        meter.add(at(34), Some(10.0));
        assert_eq!(meter.take(at(34), true), Some(7.0));
    }
}
