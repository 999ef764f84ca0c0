//! Puts rows with equal texts into different batches, where the texts of a batch are each other's negatives.

use std::collections::HashSet;
use std::sync::Arc;

/// The end of a list of rows.
const END: usize = usize::MAX;

/// The texts of all rows.
#[derive(Clone, Debug)]
pub(super) struct RowTexts {
    /// A number for each text, row by row.
    texts: Arc<[u64]>,
    /// The texts of a row.
    width: usize,
}

impl RowTexts {
    pub(super) fn new(texts: Arc<[u64]>, rows: usize) -> Self {
        let width = texts.len() / rows.max(1);
        Self { texts, width }
    }

    fn of(&self, row: u32) -> &[u64] {
        &self.texts[row as usize * self.width..][..self.width]
    }

    /// The rows in an order whose batches, of `batch` rows each, have no text in two rows: each batch takes the next
    /// rows that fit. The last batches get those that are left, which may have texts in common.
    pub(super) fn apart(&self, order: &[u32], batch: usize) -> Vec<u32> {
        // The place behind each that is not taken; that before the first place is the last one here.
        let mut next: Vec<usize> = (1..=order.len()).collect();
        next.push(0);
        let (head, mut made) = (order.len(), Vec::with_capacity(order.len()));
        if let Some(last) = order.len().checked_sub(1) {
            next[last] = END;
        }
        while made.len() < order.len() {
            let full = (made.len() + batch).min(order.len());
            let mut seen: HashSet<u64> = HashSet::new();
            self.take(order, &mut next, head, full, &mut made, |texts| {
                let is_new = texts.iter().all(|text| !seen.contains(text));
                if is_new {
                    seen.extend(texts);
                }
                is_new
            });
            self.take(order, &mut next, head, full, &mut made, |_| true);
        }
        made
    }

    /// Moves rows that `fits` from the list behind `head` to `made`, until that has `full` rows.
    fn take(
        &self,
        order: &[u32],
        next: &mut [usize],
        head: usize,
        full: usize,
        made: &mut Vec<u32>,
        mut fits: impl FnMut(&[u64]) -> bool,
    ) {
        let (mut before, mut place) = (head, next[head]);
        while place != END && made.len() < full {
            let row = order[place];
            match fits(self.of(row)) {
                true => {
                    made.push(row);
                    next[before] = next[place];
                }
                false => before = place,
            }
            place = next[place];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(texts: &[[u64; 2]], batch: usize, expect: &[u32]) {
        let rows = RowTexts::new(texts.concat().into(), texts.len());
        let order: Vec<u32> = (0..texts.len() as u32).collect();
        assert_eq!(rows.apart(&order, batch), expect);
    }

    #[test]
    fn rows_wait_for_a_batch_without_their_texts() {
        check(&[[1, 2], [3, 4], [5, 6]], 2, &[0, 1, 2]);
        check(&[[1, 2], [1, 3], [4, 5], [6, 7]], 2, &[0, 2, 1, 3]);
        // Texts are compared across columns too, but not within a row.
        check(&[[1, 1], [2, 1], [3, 4], [2, 3]], 2, &[0, 2, 1, 3]);
        check(&[[1, 2], [3, 2], [5, 3], [1, 5]], 2, &[0, 2, 1, 3]);
    }

    #[test]
    fn rows_that_fit_nowhere_fill_the_last_batches() {
        check(&[[1, 2], [1, 3], [1, 4], [5, 6], [1, 7]], 2, &[0, 3, 1, 2, 4]);
        check(&[[1, 2], [1, 2], [1, 2]], 3, &[0, 1, 2]);
        check(&[], 3, &[]);
    }

    #[test]
    fn every_row_is_there_once() {
        let texts: Vec<[u64; 2]> = (0..500).map(|row| [row % 37, 1000 + row % 211]).collect();
        let rows = RowTexts::new(texts.concat().into(), texts.len());
        let order: Vec<u32> = (0..500).rev().collect();
        let made = rows.apart(&order, 16);
        let first: Vec<u64> = made[..16].iter().flat_map(|row| texts[*row as usize]).collect();
        assert_eq!(first.iter().collect::<HashSet<_>>().len(), 32);
        let mut sorted = made.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..500).collect::<Vec<u32>>());
    }
}
