//! Part of the training rows kept aside to evaluate on (`validation_split`).

use std::collections::HashSet;

use super::{Labels, TokenizedSet};
use crate::random::SplitMix64;
use crate::{Error, Result};

impl TokenizedSet {
    /// Splits off `fraction` of the rows, rounded up, drawn by `seed`: the rows left to train on
    /// and those to evaluate on, each in data set order. All windows of a question stay together.
    pub fn split_validation(&self, fraction: f64, seed: u64) -> Result<(Self, Self)> {
        let bad = |message| Error::BadOption { field: "data.validation_split", message };
        if !(fraction > 0.0 && fraction < 1.0) {
            return Err(bad(format!("must be between 0 and 1, found {fraction}")));
        }
        let mut groups: Vec<usize> = (0..self.len()).map(|row| self.source_row(row)).collect();
        groups.dedup();
        let aside = (groups.len() as f64 * fraction).ceil() as usize;
        if aside >= groups.len() {
            return Err(bad(format!(
                "{fraction} of {} rows leaves none to train on",
                groups.len()
            )));
        }
        SplitMix64::of_epoch(seed, 0).shuffle(&mut groups);
        let aside: HashSet<usize> = groups.into_iter().take(aside).collect();
        let (validation, train): (Vec<usize>, Vec<usize>) =
            (0..self.len()).partition(|&row| aside.contains(&self.source_row(row)));
        Ok((self.select(&train), self.select(&validation)))
    }

    /// Some of the rows.
    fn select(&self, rows: &[usize]) -> Self {
        let ends = rows.iter().scan(0, |end, &row| {
            *end += self.span(row).len() as u64;
            Some(*end)
        });
        Self {
            input_ids: self.of_tokens(&self.input_ids, rows),
            offsets: std::iter::once(0).chain(ends).collect(),
            token_type_ids: self.token_type_ids.as_ref().map(|ids| self.of_tokens(ids, rows)),
            masking: self.masking.as_ref().map(|parts| self.of_tokens(parts, rows)),
            context_offsets: self.context_offsets.as_ref().map(|all| self.of_tokens(all, rows)),
            source_rows: Some(rows.iter().map(|&row| self.source_row(row) as u32).collect()),
            labels: self.labels_of(rows),
            about: self.about.clone(),
        }
    }

    fn of_tokens<T: Copy>(&self, values: &[T], rows: &[usize]) -> Vec<T> {
        rows.iter().flat_map(|&row| &values[self.span(row)]).copied().collect()
    }

    fn labels_of(&self, rows: &[usize]) -> Labels {
        match &self.labels {
            Labels::None => Labels::None,
            Labels::InputIds => Labels::InputIds,
            Labels::Class(ids) => Labels::Class(of_rows(ids, rows, 1)),
            Labels::Numbers { width, values } => {
                Labels::Numbers { width: *width, values: of_rows(values, rows, *width) }
            }
            Labels::MultiLabel { classes, values } => {
                Labels::MultiLabel { classes: *classes, values: of_rows(values, rows, *classes) }
            }
            Labels::Token(ids) => Labels::Token(self.of_tokens(ids, rows)),
            Labels::Span { start_positions, end_positions } => Labels::Span {
                start_positions: of_rows(start_positions, rows, 1),
                end_positions: of_rows(end_positions, rows, 1),
            },
        }
    }
}

fn of_rows<T: Copy>(values: &[T], rows: &[usize], each: usize) -> Vec<T> {
    rows.iter().flat_map(|&row| &values[row * each..(row + 1) * each]).copied().collect()
}
