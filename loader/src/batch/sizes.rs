//! The sizes of a batch's arrays, by name.

use std::fmt;

/// A size that arrays of a batch share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchAxis {
    /// Rows of one core.
    Rows,
    /// Tokens of a padded row: of its source, where the task has targets of another length.
    Positions,
    /// Tokens of a padded target.
    TargetPositions,
    /// Tokens that layers compute for a row of one core, on average, where padding is left out: a core's rows share
    /// them. 0 where layers compute every position.
    PackedPositions,
    /// Sequences of a row, where sets of rows have different numbers of them. 0 where all rows have as many.
    Sequences,
    /// The objective of a batch's rows, from 1, where sets of rows have objectives of their own. 0 where there is one.
    Objective,
    /// Predictions of a row of one core, on average, where those of masked tokens or with a label alone are computed: a
    /// core's rows share them. 0 where those of all tokens are.
    PredictedPositions,
}

impl BatchAxis {
    /// Every axis, in the order of [`BatchSizes`].
    pub const ALL: [BatchAxis; 7] = [
        BatchAxis::Rows,
        BatchAxis::Positions,
        BatchAxis::TargetPositions,
        BatchAxis::PackedPositions,
        BatchAxis::Sequences,
        BatchAxis::Objective,
        BatchAxis::PredictedPositions,
    ];
}

/// The size of each axis on one core. All cores have the same sizes, since all run one program;
/// an axis that a task does not use has size 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchSizes([u32; BatchAxis::ALL.len()]);

impl BatchSizes {
    /// Sizes with `rows` rows and no other axis.
    pub fn of_rows(rows: usize) -> Self {
        Self::default().with(BatchAxis::Rows, rows as u32)
    }

    /// The same sizes but for one axis.
    pub fn with(mut self, axis: BatchAxis, size: u32) -> Self {
        self.0[axis as usize] = size;
        self
    }

    /// The size of an axis.
    pub fn get(&self, axis: BatchAxis) -> usize {
        self.0[axis as usize] as usize
    }

    /// The rows of one core.
    pub fn rows(&self) -> usize {
        self.get(BatchAxis::Rows)
    }

    /// The tokens that layers compute for a row, padding and those of its target included.
    pub fn tokens_per_row(&self) -> u64 {
        (self.layer_positions() + self.get(BatchAxis::TargetPositions)) as u64
    }

    /// The tokens that layers compute for a row, without those of its target.
    pub(crate) fn layer_positions(&self) -> usize {
        match self.get(BatchAxis::PackedPositions) {
            0 => self.get(BatchAxis::Positions),
            packed => packed,
        }
    }
}

impl fmt::Display for BatchSizes {
    /// The sizes of the axes in use, such as `8x128`, and `8x128-texts3-loss2` for rows of one of several sets.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.rows())?;
        for axis in BatchAxis::ALL.into_iter().skip(1).filter(|axis| self.get(*axis) > 0) {
            let before = match axis {
                BatchAxis::Sequences => "-texts",
                BatchAxis::Objective => "-loss",
                BatchAxis::PredictedPositions => "-predicted",
                _ => "x",
            };
            write!(out, "{before}{}", self.get(axis))?;
        }
        Ok(())
    }
}

/// Returns the rows of each part of `rows` rows that pass through the model at most `rows_max` at a time: the largest
/// number up to that which divides them.
pub fn equal_part_rows(rows: usize, rows_max: usize) -> usize {
    let is_fitting = |part: &usize| rows.is_multiple_of(*part);
    (1..=rows_max.min(rows)).rev().find(is_fitting).unwrap_or(rows)
}

/// One size of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ArraySize {
    /// A size of the batch.
    Axis(BatchAxis),
    /// A size that is the same in every batch.
    Fixed(usize),
}

/// The rows of one core.
pub(crate) const ROWS: ArraySize = ArraySize::Axis(BatchAxis::Rows);
/// The tokens of a padded row.
pub(crate) const POSITIONS: ArraySize = ArraySize::Axis(BatchAxis::Positions);

/// The tokens of a padded target.
pub(crate) const TARGET_POSITIONS: ArraySize = ArraySize::Axis(BatchAxis::TargetPositions);

/// A size that is the same in every batch.
pub(crate) fn fixed(size: usize) -> ArraySize {
    ArraySize::Fixed(size)
}

impl ArraySize {
    pub(super) fn resolve(self, sizes: &BatchSizes) -> usize {
        match self {
            Self::Axis(axis) => sizes.get(axis),
            Self::Fixed(size) => size,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equal_and_as_large_as_they_may_be() {
        let parts = |rows, most| rows / equal_part_rows(rows, most);
        assert_eq!((parts(4096, 64), parts(64, 64), parts(32, 64)), (64, 1, 1));
        assert_eq!((parts(96, 64), parts(10, 4), parts(7, 4)), (2, 5, 7));
    }
}
