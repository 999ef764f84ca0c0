//! Split expressions: `train[:10%]`, `train[100:200]`, `train+validation`, as `datasets` reads them.

use serde::Serialize;

use crate::error::{Error, Result};

/// A split with the part of its rows to read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SplitPart {
    /// The name of the split, such as `train`.
    pub split: String,
    /// The rows of the split.
    pub range: SplitRange,
}

/// A part of the rows of a split; all of them by default.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SplitRange {
    from: Option<i64>,
    to: Option<i64>,
    unit: Unit,
}

/// The meaning of the numbers of a range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
enum Unit {
    #[default]
    Rows,
    /// Percent, each boundary rounded to the nearest row.
    Percent,
    /// Percent, one of which has as many rows as the others; the remainder is left out.
    EqualPercent,
}

impl SplitPart {
    /// The parts that an expression adds up.
    pub fn parse(expression: &str) -> Result<Vec<Self>> {
        let bad = || Error::BadOption {
            field: "split",
            message: format!(
                "`{expression}` is not a split such as train, train[:10%], train[100:200] or \
                 train+validation"
            ),
        };
        let parts = expression.split('+').map(|part| Self::parse_one(part.trim()).ok_or_else(bad));
        parts.collect()
    }

    fn parse_one(text: &str) -> Option<Self> {
        let (text, rounding) = match text.strip_suffix(')') {
            Some(rest) => {
                let (text, rounding) = rest.rsplit_once('(')?;
                (text, Some(rounding))
            }
            None => (text, None),
        };
        let (split, range) = match text.split_once('[') {
            None if rounding.is_some() => return None,
            None => (text, SplitRange::default()),
            Some((split, range)) => (split, SplitRange::parse(range.strip_suffix(']')?, rounding)?),
        };
        let is_name = |letter: char| letter.is_alphanumeric() || "_.-".contains(letter);
        let split = split.to_owned();
        (!split.is_empty() && split.chars().all(is_name)).then_some(Self { split, range })
    }
}

impl SplitRange {
    fn parse(text: &str, rounding: Option<&str>) -> Option<Self> {
        let (from, to) = text.split_once(':')?;
        let is_percent = from.ends_with('%') || to.ends_with('%');
        let number = |text: &str| -> Option<Option<i64>> {
            let digits = text.strip_suffix('%').unwrap_or(text);
            match text {
                "" => Some(None),
                _ => digits.replace('_', "").parse().ok().map(Some),
            }
        };
        let (from, to) = (number(from)?, number(to)?);
        let unit = match (is_percent, rounding) {
            (false, None) => Unit::Rows,
            (true, None | Some("closest")) => Unit::Percent,
            (true, Some("pct1_dropremainder")) => Unit::EqualPercent,
            _ => return None,
        };
        let is_share = |value: Option<i64>| value.is_none_or(|value| (-100..=100).contains(&value));
        let fits = !is_percent || (is_share(from) && is_share(to));
        fits.then_some(Self { from, to, unit })
    }

    /// Returns true if it is all rows, however many there are.
    pub(super) fn is_whole(&self) -> bool {
        (self.from, self.to) == (None, None)
    }

    /// Returns true if it depends on the number of rows.
    pub(super) fn needs_count(&self) -> bool {
        let is_negative = |value: Option<i64>| value.is_some_and(|value| value < 0);
        !self.is_whole()
            && (self.unit != Unit::Rows || is_negative(self.from) || is_negative(self.to))
    }

    /// The rows of `count` that it has, first and one behind the last.
    pub(super) fn rows(&self, count: u64) -> Result<(u64, u64)> {
        let all = i64::try_from(count).unwrap_or(i64::MAX);
        let place = |value: Option<i64>, default: i64| -> Result<i64> {
            let Some(value) = value else { return Ok(default) };
            Ok(match self.unit {
                Unit::Rows => value,
                Unit::Percent => nearest_percent(value, all),
                Unit::EqualPercent if all < 100 => {
                    let message = "pct1_dropremainder needs at least 100 rows".to_owned();
                    return Err(Error::BadOption { field: "split", message });
                }
                Unit::EqualPercent => value * (all / 100),
            })
        };
        let within = |value: i64| {
            let value = if value < 0 { (all + value).max(0) } else { value };
            value.min(all) as u64
        };
        let (from, to) = (place(self.from, 0)?, place(self.to, all)?);
        Ok((within(from), within(to).max(within(from))))
    }
}

/// `percent` of a number of rows, halves rounded to even, as Python's `round`.
fn nearest_percent(percent: i64, count: i64) -> i64 {
    (percent as f64 * count as f64 / 100.0).round_ties_even() as i64
}
