//! Part of the training rows kept aside to evaluate on (`validation_split`).

use std::collections::HashSet;

use traind_wording::counted;

use super::TokenizedSet;
use crate::error::{Error, Result};
use crate::random::SplitMix64;

impl TokenizedSet {
    /// Splits off rows drawn by `seed`: a share of all where `size` is below 1, rounded up, else as many rows. Returns
    /// the rows left to train on and those to evaluate on, each in data set order. All windows of a question stay
    /// together.
    pub fn split_validation(&self, size: f64, seed: u64) -> Result<(Self, Self)> {
        let bad = |message| Error::BadOption { field: "data.validation_split", message };
        let is_share = size < 1.0;
        if size.is_nan() || size <= 0.0 || (!is_share && size.fract() != 0.0) {
            return Err(bad(format!("must be a share below 1 or a number of rows, found {size}")));
        }
        let mut groups: Vec<usize> = (0..self.len()).map(|row| self.source_row(row)).collect();
        // Rows of interleaved sets are in no order, and some are there more than once.
        groups.sort_unstable();
        groups.dedup();
        let aside = if is_share { (groups.len() as f64 * size).ceil() } else { size } as usize;
        if aside >= groups.len() {
            return Err(bad(format!(
                "{size} of {} leaves none to train on",
                counted(groups.len(), "row")
            )));
        }
        SplitMix64::of_epoch(seed, 0).shuffle(&mut groups);
        let aside: HashSet<usize> = groups.into_iter().take(aside).collect();
        let (validation, train): (Vec<usize>, Vec<usize>) =
            (0..self.len()).partition(|&row| aside.contains(&self.source_row(row)));
        Ok((self.select(&train), self.select(&validation)))
    }

    /// Some of the rows, of the same tokens. Vectors are of rows by their numbers, which become others.
    fn select(&self, rows: &[usize]) -> Self {
        Self {
            tokens: self.tokens.clone(),
            rows: self.rows.select(rows),
            labels: self.labels.select(rows),
            task: self.task.clone(),
            about: self.about.clone(),
            vectors: None,
        }
    }
}
