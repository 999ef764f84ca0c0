//! Puts rows of the same class into the same batches, two at a time, where a loss compares rows of one class with those
//! of others (`GroupByLabelBatchSampler`).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Rows of a class that stand together.
const TOGETHER: usize = 2;

/// The rows in an order in which the classes take turns with two rows each, so that every batch has several classes,
/// and each with another row of its own. A round begins with the class whose next row is the first in `order`. Rows
/// that no other class is left for, and those without another of their class, are the last ones.
pub(super) fn grouped(order: &[u32], classes: &Arc<[i32]>) -> Vec<u32> {
    let mut queues: BTreeMap<i32, VecDeque<usize>> = BTreeMap::new();
    for (place, row) in order.iter().enumerate() {
        queues.entry(classes[*row as usize]).or_default().push_back(place);
    }
    let mut made: Vec<u32> = Vec::with_capacity(order.len());
    let mut left: Vec<usize> = Vec::new();
    let mut last = None;
    loop {
        queues.retain(|_, places| {
            let has_pair = places.len() >= TOGETHER;
            if !has_pair {
                left.extend(places.drain(..));
            }
            has_pair
        });
        let mut round: Vec<(usize, i32)> =
            queues.iter().map(|(class, places)| (places[0], *class)).collect();
        if round.len() < 2 {
            break;
        }
        round.sort_unstable();
        // Two pairs of one class in a row would leave another class alone.
        if Some(round[0].1) == last {
            round.swap(0, 1);
        }
        for (_, class) in &round {
            let places =
                queues.get_mut(class).into_iter().flat_map(|queue| queue.drain(..TOGETHER));
            made.extend(places.map(|place| order[place]));
        }
        last = round.last().map(|(_, class)| *class);
    }
    left.extend(queues.into_values().flatten());
    left.sort_unstable();
    made.extend(left.into_iter().map(|place| order[place]));
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(classes: &[i32], expect: &[u32]) {
        let order: Vec<u32> = (0..classes.len() as u32).collect();
        assert_eq!(grouped(&order, &classes.into()), expect);
    }

    #[test]
    fn classes_take_turns_with_two_rows() {
        check(&[0, 1, 0, 1, 2, 0, 2, 0], &[0, 2, 1, 3, 4, 6, 5, 7]);
        check(&[1, 0, 0, 0, 0, 1, 1, 1], &[0, 5, 1, 2, 6, 7, 3, 4]);
    }

    #[test]
    fn rows_that_are_alone_are_the_last() {
        check(&[0, 1, 2, 2, 0, 3], &[0, 4, 2, 3, 1, 5]);
        check(&[0, 0, 0, 0, 1, 1], &[0, 1, 4, 5, 2, 3]);
        check(&[0, 0, 0], &[0, 1, 2]);
        check(&[], &[]);
    }

    /// Each full batch but the last ones has several classes, and two rows or more of each.
    #[test]
    fn every_row_is_there_once_and_batches_have_pairs() {
        let classes: Vec<i32> = (0..400).map(|row| row * row % 11 % 7).collect();
        let order: Vec<u32> = (0..400).map(|row| row * 33 % 400).collect();
        let made = grouped(&order, &classes.clone().into());
        for batch in made[..320].chunks(8) {
            let mut counts: BTreeMap<i32, usize> = BTreeMap::new();
            for row in batch {
                *counts.entry(classes[*row as usize]).or_default() += 1;
            }
            assert!(counts.len() >= 2 && counts.values().all(|count| *count >= 2), "{counts:?}");
        }
        let mut sorted = made;
        sorted.sort_unstable();
        let mut expect = order;
        expect.sort_unstable();
        assert_eq!(sorted, expect);
    }
}
