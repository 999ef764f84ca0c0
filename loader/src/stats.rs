//! Statistics of a set, which a job's first event reports.

use crate::dataset::TokenizedSet;
use crate::error::Result;
use crate::labels::Labels;
use crate::sampler::BatchPlan;

/// Statistics of one set.
#[derive(Clone, Debug, PartialEq)]
pub struct SetStats {
    /// The rows that are trained on.
    pub rows: u64,
    /// The files that they came from.
    pub files: u64,
    /// Padding not counted.
    pub tokens: u64,
    /// The rows that lost tokens to the length's limit.
    pub truncated_rows: u64,
    /// The mean length of all sequences.
    pub mean_length: f64,
    /// The distribution of lengths.
    pub lengths: LengthPercentiles,
    /// Rows (or labelled tokens) of each class, by id; empty without classes.
    pub class_histogram: Vec<(String, u64)>,
}

/// Row lengths in tokens (nearest rank): that of the longer sequence, where rows are pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LengthPercentiles {
    /// The length, in tokens, that half of the rows do not exceed.
    pub p50: u32,
    /// The length that 90 % of the rows do not exceed.
    pub p90: u32,
    /// The length that 99 % of the rows do not exceed.
    pub p99: u32,
    /// The longest length.
    pub max: u32,
}

impl SetStats {
    /// Counts the rows of `set`.
    pub fn of(set: &TokenizedSet) -> Result<Self> {
        Ok(Self {
            rows: set.len() as u64,
            files: set.files().len() as u64,
            tokens: set.tokens(),
            truncated_rows: set.truncated_rows(),
            mean_length: set.tokens() as f64 / (set.len() * set.sequences_per_row()) as f64,
            lengths: LengthPercentiles::of((0..set.len()).map(|row| set.positions(row)).collect()),
            class_histogram: class_histogram(set)?,
        })
    }
}

impl LengthPercentiles {
    /// The percentiles of row lengths in any order; all zero without rows.
    pub fn of(mut lengths: Vec<u32>) -> Self {
        lengths.sort_unstable();
        let percentile = |percent: usize| {
            let rank = (lengths.len() * percent).div_ceil(100).max(1);
            lengths.get(rank - 1).copied().unwrap_or(0)
        };
        Self { p50: percentile(50), p90: percentile(90), p99: percentile(99), max: percentile(100) }
    }
}

fn class_histogram(set: &TokenizedSet) -> Result<Vec<(String, u64)>> {
    let Some(encoder) = set.label_encoder() else {
        return Ok(Vec::new());
    };
    let mut counts = vec![0; encoder.id2label().len()];
    let mut count = |ids: &[i32]| {
        let classes = ids.iter().filter_map(|&id| usize::try_from(id).ok());
        classes.for_each(|class| counts[class] += 1);
    };
    match set.labels() {
        Labels::Class(ids) => count(ids),
        Labels::MultiLabel(labels) => (0..set.len()).for_each(|row| count(labels.of(row))),
        Labels::Token => {
            for row in 0..set.len() {
                count(&set.token_labels(row)?.unwrap_or_default());
            }
        }
        Labels::None | Labels::Numbers { .. } | Labels::Span { .. } | Labels::InputIds => {}
    }
    Ok(encoder.id2label().iter().cloned().zip(counts).collect())
}

/// The share of computed token positions that hold no token, over `batches`; 0 without batches.
pub fn padding_share(batches: impl IntoIterator<Item = BatchPlan>, lengths: &[u32]) -> f64 {
    let (mut padded, mut tokens) = (0, 0);
    for batch in batches {
        padded += batch.padded_tokens();
        tokens += batch.rows.iter().map(|&row| u64::from(lengths[row as usize])).sum::<u64>();
    }
    if padded == 0 { 0.0 } else { 1.0 - tokens as f64 / padded as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchAxis, BatchSizes};
    use crate::testing::set_of;

    #[test]
    fn percentiles_are_nearest_ranks() {
        let check = |lengths: Vec<u32>, expect: [u32; 4]| {
            let found = LengthPercentiles::of(lengths);
            assert_eq!([found.p50, found.p90, found.p99, found.max], expect);
        };
        check((1..=100).rev().collect(), [50, 90, 99, 100]);
        check(vec![3, 1, 2], [2, 3, 3, 3]);
        check(vec![7], [7; 4]);
        check(vec![], [0; 4]);
    }

    #[test]
    fn a_set_counts_rows_tokens_and_classes() {
        let stats = SetStats::of(&set_of(&[&[5, 6], &[7], &[8, 9, 10]], &[1, 0, 1])).unwrap();
        assert_eq!((stats.rows, stats.files, stats.tokens), (3, 1, 6));
        let histogram = [("LABEL_0", 1), ("LABEL_1", 2)];
        let histogram = histogram.map(|(name, rows)| (name.to_owned(), rows));
        assert_eq!(stats.class_histogram, histogram);
    }

    #[test]
    fn padding_is_what_holds_no_token() {
        let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, 4);
        let batch = |rows: &[u32]| BatchPlan { sizes, rows: rows.to_vec(), cores: 2 };
        let share = padding_share([batch(&[0, 1]), batch(&[2])], &[4, 2, 4]);
        assert_eq!(share, 1.0 - 10.0 / 16.0);
        assert_eq!(padding_share([], &[]), 0.0);
    }
}
