//! Core time that users have used of late: it counts half after each half-life, as in Slurm's fair
//! shares.

use std::f64::consts::LN_2;
use std::time::Duration;

/// The shortest time for which a run counts, in microseconds. The cores of one that ends at once are idle until the
/// next one has started, which nobody else's core time has.
const RUN_MICROS_MIN: i64 = 5_000_000;

/// Core time as of some moment, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub core_seconds: f64,
    pub as_of: i64,
}

impl Usage {
    /// The core time as of a later moment. One before `as_of`, by a clock that was set back, counts as `as_of`.
    pub(crate) fn at(self, time: i64, half_life: Duration) -> Usage {
        let elapsed = seconds(self.as_of, time);
        let left = (-elapsed / half_life.as_secs_f64()).exp2();
        Usage { core_seconds: self.core_seconds * left, as_of: self.as_of.max(time) }
    }

    /// The same core time as of `now` at the latest. As of a later moment, by a clock that has been set back since, it
    /// would not decay until then.
    pub(crate) fn not_after(self, now: i64) -> Usage {
        Usage { as_of: self.as_of.min(now), ..self }
    }

    /// Adds core time that was used just before `time`.
    pub(crate) fn with(self, core_seconds: f64, time: i64, half_life: Duration) -> Usage {
        let before = self.at(time, half_life);
        Usage { core_seconds: before.core_seconds + core_seconds, ..before }
    }

    /// Adds a run that held some cores between two moments. The result is as of its end, or later.
    pub(crate) fn with_run(
        self,
        cores: usize,
        since: i64,
        until: i64,
        half_life: Duration,
    ) -> Usage {
        let mean_life = half_life.as_secs_f64() / LN_2;
        // The integral of cores that count less the longer ago they were held.
        let counted = mean_life * -(-seconds(since, until) / mean_life).exp_m1();
        let run = Usage { core_seconds: cores as f64 * counted, as_of: until };
        let time = until.max(self.as_of);
        let (before, run) = (self.at(time, half_life), run.at(time, half_life));
        Usage { core_seconds: before.core_seconds + run.core_seconds, as_of: time }
    }

    /// Adds a run that has ended.
    pub(crate) fn with_ended_run(
        self,
        cores: usize,
        since: i64,
        until: i64,
        half_life: Duration,
    ) -> Usage {
        self.with_run(cores, since.min(until.saturating_sub(RUN_MICROS_MIN)), until, half_life)
    }
}

fn seconds(since: i64, until: i64) -> f64 {
    until.saturating_sub(since).max(0) as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 3_600_000_000;
    const HALF_LIFE: Duration = Duration::from_secs(3600);

    fn check(usage: Usage, core_seconds: f64, as_of: i64) {
        assert!((usage.core_seconds - core_seconds).abs() < 1e-6, "{usage:?}");
        assert_eq!(usage.as_of, as_of);
    }

    #[test]
    fn core_time_counts_half_after_a_half_life() {
        let usage = Usage { core_seconds: 80.0, as_of: HOUR };
        check(usage.at(3 * HOUR, HALF_LIFE), 20.0, 3 * HOUR);
        check(usage.at(0, HALF_LIFE), 80.0, HOUR);
    }

    #[test]
    fn core_time_of_a_clock_that_was_a_year_ahead_decays_again() {
        let ahead = Usage { core_seconds: 80.0, as_of: 9_000 * HOUR };
        check(ahead.not_after(HOUR).at(3 * HOUR, HALF_LIFE), 20.0, 3 * HOUR);
        let behind = Usage { core_seconds: 80.0, as_of: HOUR };
        assert_eq!(behind.not_after(3 * HOUR), behind);
    }

    #[test]
    fn a_run_counts_the_same_in_one_piece_as_in_two() {
        let whole = Usage::default().with_run(4, HOUR, 4 * HOUR, HALF_LIFE);
        let first = Usage::default().with_run(4, HOUR, 2 * HOUR, HALF_LIFE);
        check(first.with_run(4, 2 * HOUR, 4 * HOUR, HALF_LIFE), whole.core_seconds, 4 * HOUR);
        // Use without end approaches that of one mean life.
        let mean_life = 3600.0 / LN_2;
        check(Usage::default().with_run(2, 0, 999 * HOUR, HALF_LIFE), 2.0 * mean_life, 999 * HOUR);
    }

    #[test]
    fn a_run_that_ends_at_once_counts_for_some_seconds() {
        let ended =
            |micros: i64| Usage::default().with_ended_run(2, HOUR - micros, HOUR, HALF_LIFE);
        assert_eq!(ended(0), Usage::default().with_run(2, HOUR - 5_000_000, HOUR, HALF_LIFE));
        assert_eq!(ended(0), ended(1_000_000));
        let minute = Usage::default().with_run(2, HOUR - 60_000_000, HOUR, HALF_LIFE);
        assert_eq!(ended(60_000_000), minute);
    }

    #[test]
    fn a_run_that_ended_earlier_has_decayed() {
        let later = Usage { core_seconds: 0.0, as_of: 2 * HOUR };
        let run = Usage::default().with_run(1, 0, HOUR, HALF_LIFE);
        check(later.with_run(1, 0, HOUR, HALF_LIFE), run.core_seconds / 2.0, 2 * HOUR);
        check(later.with_run(1, HOUR, 0, HALF_LIFE), 0.0, 2 * HOUR);
    }
}
