//! Orders the rows of a batch so that its cores get about as many tokens each: where layers compute no padding, those
//! with fewer wait for the one with most.

use std::cmp::Reverse;

/// The rows of a batch, of which every contiguous half, quarter and so on has about the same number of tokens. The
/// order depends on the lengths alone, and not on the number of cores that share the batch.
pub(super) fn balanced(rows: &[u32], lengths: &[u32]) -> Vec<u32> {
    let length = |row: u32| lengths[row as usize];
    let mut rows = rows.to_vec();
    if rows.windows(2).any(|pair| length(pair[0]) != length(pair[1])) {
        rows.sort_by_key(|&row| Reverse(length(row)));
        rows = dealt(rows);
    }
    rows
}

/// Deals sorted rows to two halves, to each first in turn, and those of each half likewise.
fn dealt(sorted: Vec<u32>) -> Vec<u32> {
    if sorted.len() <= 2 {
        return sorted;
    }
    let numbered = sorted.into_iter().enumerate();
    let (first, second): (Vec<_>, Vec<_>) =
        numbered.partition(|(place, _)| matches!(place % 4, 0 | 3));
    let half = |rows: Vec<(usize, u32)>| dealt(rows.into_iter().map(|(_, row)| row).collect());
    [half(first), half(second)].concat()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn halves_and_quarters_get_long_and_short_rows() {
        let lengths = [8, 7, 6, 5, 4, 3, 2, 1];
        assert_eq!(balanced(&[3, 7, 1, 5, 0, 4, 2, 6], &lengths), [0, 7, 3, 4, 1, 6, 2, 5]);
    }

    #[test]
    fn rows_of_one_length_keep_their_order() {
        assert_eq!(balanced(&[2, 0, 3, 1], &[5; 4]), [2, 0, 3, 1]);
    }

    proptest! {
        #[test]
        fn cores_differ_by_less_than_their_longest_and_shortest_row(
            lengths in prop::collection::vec(1u32..=64, 16), cores in prop::sample::select(vec![2usize, 4, 8]),
        ) {
            let rows: Vec<u32> = (0..16).collect();
            let ordered = balanced(&rows, &lengths);
            let tokens = |rows: &[u32]| rows.iter().map(|&row| lengths[row as usize]).sum::<u32>();
            let of_cores: Vec<u32> = ordered.chunks(16 / cores).map(tokens).collect();
            let mean = f64::from(tokens(&rows)) / cores as f64;
            let range = lengths.iter().max().unwrap() - lengths.iter().min().unwrap();
            for of_core in of_cores {
                prop_assert!((f64::from(of_core) - mean).abs() <= f64::from(range));
            }
            let mut sorted = ordered;
            sorted.sort_unstable();
            prop_assert_eq!(sorted, rows);
        }
    }
}
