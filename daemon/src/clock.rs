//! Times as stored: microseconds since 1970 by the wall clock, and running time, which no clock that is set changes.

use std::time::{SystemTime, UNIX_EPOCH};

use prost_types::Timestamp;

const MICROS: i64 = 1_000_000;

/// A moment, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Moment {
    /// The time since 1970 by the wall clock, which is shown and compared with other stored times.
    pub wall: i64,
    /// The time for which the host has run: see `jobs::store::running_time`.
    pub running: i64,
}

/// The time now.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Converts a time from the wire, clamped to the years since 1970 and not after now.
pub(crate) fn micros(time: &Timestamp) -> i64 {
    let micros = time.seconds.saturating_mul(MICROS).saturating_add(i64::from(time.nanos) / 1000);
    micros.clamp(0, now())
}

/// Converts a stored time for the wire.
pub(crate) fn timestamp(micros: i64) -> Timestamp {
    let nanos = i32::try_from(micros.rem_euclid(MICROS) * 1000).unwrap_or_default();
    Timestamp { seconds: micros.div_euclid(MICROS), nanos }
}
