//! Several sets of rows as one: parts of splits, limits, and the order that their rows are mixed in.

mod check;
mod examples;
mod order;
mod part;
mod pcg;
mod reader;
mod slice;
mod sources;
#[cfg(test)]
mod tests;
mod token_lengths;

use serde::Serialize;

pub(super) use examples::require_example;
pub use order::Mixing;
pub(super) use reader::{Piece, read_ahead};
pub use slice::{SplitPart, SplitRange};
pub use sources::Checked;
pub(super) use sources::Sources;
pub use token_lengths::TokenLengths;

use crate::source::{Columns, Files, FormatOptions};

/// Sets of rows that are read as one.
#[derive(Clone, Debug)]
pub struct Mixture {
    /// The sets, in order; at least one.
    pub sets: Vec<MixedSet>,
    /// The order in which rows of the sets follow each other.
    pub mixing: Mixing,
    /// The seed of the order, where sets have weights.
    pub seed: u64,
}

/// One of the sets.
#[derive(Clone, Debug)]
pub struct MixedSet {
    /// Parts of files, one behind the other.
    pub parts: Vec<(Files, SplitRange)>,
    /// Rows to read at most, the first ones.
    pub limit: Option<u64>,
    /// The probability of a row to be from this set, relative to the other sets.
    pub weight: Option<f64>,
}

impl From<Files> for Mixture {
    fn from(files: Files) -> Self {
        let parts = vec![(files, SplitRange::default())];
        let set = MixedSet { parts, limit: None, weight: None };
        Self { sets: vec![set], mixing: Mixing::Concatenate, seed: 0 }
    }
}

/// The parts that a tokenized set depends on besides the contents of its files.
#[derive(Serialize)]
pub(super) struct Recipe<'a> {
    sets: Vec<(Vec<PartRecipe<'a>>, Option<u64>, Option<f64>)>,
    mixing: Mixing,
    seed: u64,
}

#[derive(Serialize)]
struct PartRecipe<'a> {
    columns: &'a Columns,
    format: &'a FormatOptions,
    range: SplitRange,
    files: usize,
}

impl Mixture {
    /// The recipe of a set made of `files` files for each part.
    pub(super) fn recipe(&self, files: &[usize]) -> Recipe<'_> {
        let mut counts = files.iter();
        let sets = self.sets.iter().map(|set| {
            let parts = set.parts.iter().map(|(files, range)| PartRecipe {
                columns: &files.columns,
                format: &files.format,
                range: *range,
                files: counts.next().copied().unwrap_or_default(),
            });
            (parts.collect(), set.limit, set.weight)
        });
        Recipe { sets: sets.collect(), mixing: self.mixing, seed: self.seed }
    }
}
