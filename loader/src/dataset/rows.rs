//! The spans of a set's rows in its token arrays, kept in memory at a few bytes per row.

use std::ops::Range;

use crate::labels::of_rows;

/// Spans of the token arrays, with the row of the files that each came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) starts: Vec<u64>,
    pub(super) lengths: Vec<u32>,
    /// Rows of all files taken together.
    pub(super) source_rows: Vec<u32>,
}

impl Rows {
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    pub(super) fn push(&mut self, start: u64, length: u32, source_row: u32) {
        self.starts.push(start);
        self.lengths.push(length);
        self.source_rows.push(source_row);
    }

    pub(super) fn span(&self, row: usize) -> Range<u64> {
        self.starts[row]..self.starts[row] + u64::from(self.lengths[row])
    }

    pub(super) fn source_row(&self, row: usize) -> u32 {
        self.source_rows[row]
    }

    /// Tokens of all rows.
    pub(super) fn tokens(&self) -> u64 {
        self.lengths.iter().copied().map(u64::from).sum()
    }

    /// The row whose span has this token; rows lie end to end.
    pub(super) fn of_token(&self, token: u64) -> usize {
        self.starts.partition_point(|&start| start <= token).saturating_sub(1)
    }

    pub(super) fn select(&self, rows: &[usize]) -> Self {
        Self {
            starts: of_rows(&self.starts, rows),
            lengths: of_rows(&self.lengths, rows),
            source_rows: of_rows(&self.source_rows, rows),
        }
    }

    /// Returns true if each array has an entry for each row, and all rows lie within `tokens` and
    /// came from one of `file_rows` rows.
    pub(super) fn fit(&self, tokens: u64, file_rows: u64) -> bool {
        let ends = self.starts.iter().zip(&self.lengths);
        let inside = |(start, length): (&u64, &u32)| {
            start.checked_add(u64::from(*length)).is_some_and(|end| end <= tokens)
        };
        self.lengths.len() == self.len()
            && self.source_rows.len() == self.len()
            && ends.into_iter().all(inside)
            && self.source_rows.iter().all(|&row| u64::from(row) < file_rows)
    }
}
