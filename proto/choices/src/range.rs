//! The numbers that a setting may have.

use std::fmt;
use std::ops::{Bound, RangeBounds};

/// An interval of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Range {
    low: Bound<f64>,
    high: Bound<f64>,
}

impl Range {
    /// The interval of `bounds`, such as `0.0..1.0`.
    pub fn new(bounds: impl RangeBounds<f64>) -> Self {
        Self { low: bounds.start_bound().cloned(), high: bounds.end_bound().cloned() }
    }

    /// All numbers above a limit.
    pub const fn above(limit: f64) -> Self {
        Self { low: Bound::Excluded(limit), high: Bound::Unbounded }
    }

    /// A number and all above it.
    pub const fn at_least(min: f64) -> Self {
        Self { low: Bound::Included(min), high: Bound::Unbounded }
    }

    /// All numbers from `min` to `max`.
    pub const fn from_to(min: f64, max: f64) -> Self {
        Self { low: Bound::Included(min), high: Bound::Included(max) }
    }

    /// All numbers from `min` up to a limit that is none of them.
    pub const fn from_below(min: f64, limit: f64) -> Self {
        Self { low: Bound::Included(min), high: Bound::Excluded(limit) }
    }

    /// Returns whether `number` is in the interval.
    pub fn contains(self, number: f64) -> bool {
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
