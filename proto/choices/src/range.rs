//! The numbers a field may hold.

use std::fmt;
use std::ops::{Bound, RangeBounds};

/// An interval of numbers, written in a schema as `in 0.0..1.0` or `in above(0.0)`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Range {
    low: Bound<f64>,
    high: Bound<f64>,
}

/// All numbers above a limit, which Rust has no range for.
pub(crate) fn above(limit: f64) -> (Bound<f64>, Bound<f64>) {
    (Bound::Excluded(limit), Bound::Unbounded)
}

/// All numbers above a limit, up to another.
pub(crate) fn above_to(limit: f64, max: f64) -> (Bound<f64>, Bound<f64>) {
    (Bound::Excluded(limit), Bound::Included(max))
}

impl Range {
    pub(crate) fn new(bounds: impl RangeBounds<f64>) -> Self {
        Self { low: bounds.start_bound().cloned(), high: bounds.end_bound().cloned() }
    }

    pub(crate) fn contains(self, number: f64) -> bool {
        (self.low, self.high).contains(&number)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        match self.low {
            Bound::Included(low) => write!(formatter, "at least {low}")?,
            Bound::Excluded(low) => write!(formatter, "above {low}")?,
            Bound::Unbounded => {}
        }
        let and = match (self.low, self.high) {
            (Bound::Unbounded, _) | (_, Bound::Unbounded) => "",
            _ => " and ",
        };
        match self.high {
            Bound::Included(high) => write!(formatter, "{and}at most {high}"),
            Bound::Excluded(high) => write!(formatter, "{and}below {high}"),
            Bound::Unbounded => Ok(()),
        }
    }
}
