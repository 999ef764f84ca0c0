//! Wall-clock time as the store keeps it: microseconds since 1970.

use std::time::{SystemTime, UNIX_EPOCH};

use prost_types::Timestamp;

const MICROS: i64 = 1_000_000;

/// The time now.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// The wire's form of a stored time.
pub(crate) fn timestamp(micros: i64) -> Timestamp {
    let nanos = i32::try_from(micros.rem_euclid(MICROS) * 1000).unwrap_or_default();
    Timestamp { seconds: micros.div_euclid(MICROS), nanos }
}
