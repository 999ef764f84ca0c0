//! The spans of a set's rows in its token arrays, kept in memory at a few bytes per row.

use std::ops::Range;

use crate::labels::of_rows;
use crate::tasks::Example;

/// Spans of the token arrays, with the row of the files that each came from.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Rows {
    pub(super) starts: Vec<u64>,
    pub(super) lengths: Vec<u32>,
    /// The tokens of each row's target, which stand behind the row; empty where rows have none.
    pub(super) target_lengths: Vec<u32>,
    /// The tokens of each sequence of each row, row by row; empty where a row is one sequence.
    pub(super) sequence_lengths: Vec<u32>,
    /// Rows of all files taken together.
    pub(super) source_rows: Vec<u32>,
    /// The weight of each row in the loss; empty where all count alike.
    pub(super) weights: Vec<f32>,
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

    /// Gives the row that was pushed last a target.
    pub(super) fn push_target(&mut self, length: u32) {
        self.target_lengths.push(length);
    }

    /// Gives the row that was pushed last its sequences.
    pub(super) fn push_sequences(&mut self, lengths: &[u32]) {
        self.sequence_lengths.extend(lengths);
    }

    /// The tokens of each sequence of a row; none where rows are one sequence.
    pub(super) fn sequences(&self, row: usize) -> &[u32] {
        let count = self.sequence_lengths.len() / self.len().max(1);
        &self.sequence_lengths[row * count..(row + 1) * count]
    }

    /// The weight of a row in the loss.
    pub(super) fn weight(&self, row: usize) -> f32 {
        self.weights.get(row).copied().unwrap_or(1.0)
    }

    /// Gives a row that has none yet the tokens of `example`, which lie at `start`.
    pub(super) fn place(&mut self, row: usize, start: u64, example: &Example) {
        self.starts[row] = start;
        self.lengths[row] = example.encoded.input_ids.len() as u32;
        if let (Some(length), Some(target)) = (self.target_lengths.get_mut(row), &example.target) {
            *length = target.len() as u32;
        }
    }

    /// The span of a row's target; empty where rows have none.
    pub(super) fn target_span(&self, row: usize) -> Range<u64> {
        let start = self.span(row).end;
        start..start + u64::from(self.target_lengths.get(row).copied().unwrap_or(0))
    }

    pub(super) fn span(&self, row: usize) -> Range<u64> {
        self.starts[row]..self.starts[row] + u64::from(self.lengths[row])
    }

    pub(super) fn source_row(&self, row: usize) -> u32 {
        self.source_rows[row]
    }

    /// Tokens of all rows and their targets.
    pub(super) fn tokens(&self) -> u64 {
        self.lengths.iter().chain(&self.target_lengths).copied().map(u64::from).sum()
    }

    /// The row whose span has this token; rows lie end to end.
    pub(super) fn of_token(&self, token: u64) -> usize {
        self.starts.partition_point(|&start| start <= token).saturating_sub(1)
    }

    /// Returns true if the sequences of a row are all of its tokens.
    fn fits_sequences(&self, row: usize) -> bool {
        let sequences = self.sequences(row);
        let tokens: u64 = sequences.iter().copied().map(u64::from).sum();
        sequences.is_empty() || tokens == u64::from(self.lengths[row])
    }

    pub(super) fn select(&self, rows: &[usize]) -> Self {
        Self {
            starts: of_rows(&self.starts, rows),
            lengths: of_rows(&self.lengths, rows),
            target_lengths: match self.target_lengths.is_empty() {
                true => Vec::new(),
                false => of_rows(&self.target_lengths, rows),
            },
            sequence_lengths: rows.iter().flat_map(|&row| self.sequences(row)).copied().collect(),
            source_rows: of_rows(&self.source_rows, rows),
            weights: match self.weights.is_empty() {
                true => Vec::new(),
                false => of_rows(&self.weights, rows),
            },
        }
    }

    /// Returns true if each array has an entry for each row, and all rows lie within `tokens` and
    /// came from one of `file_rows` rows.
    pub(super) fn fit(&self, tokens: u64, file_rows: u64) -> bool {
        let inside = |row: usize| {
            let target = self.target_lengths.get(row).copied().unwrap_or(0);
            let length = u64::from(self.lengths[row]) + u64::from(target);
            self.starts[row].checked_add(length).is_some_and(|end| end <= tokens)
        };
        self.lengths.len() == self.len()
            && self.source_rows.len() == self.len()
            && (self.target_lengths.is_empty() || self.target_lengths.len() == self.len())
            && self.sequence_lengths.len().is_multiple_of(self.len().max(1))
            && (0..self.len()).all(|row| self.fits_sequences(row))
            && (self.weights.is_empty() || self.weights.len() == self.len())
            && (0..self.len()).all(inside)
            && self.source_rows.iter().all(|&row| u64::from(row) < file_rows)
    }
}
