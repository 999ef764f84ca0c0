//! The ladder that pads a known set of batches least: a shortest path over the sorted lengths,
//! one edge a rung.

use super::LengthBudget;

/// Lengths are rounded to at most this many classes, which bounds the search.
const CLASSES: u32 = 256;

/// The rungs, ascending, within `budget` that pad `longest` (the longest row of each batch) with the
/// fewest tokens in all, the price of each rung included. The last rung is `last`, at least as long
/// as any of them.
pub(super) fn fit(longest: &[u32], last: u32, budget: LengthBudget) -> Vec<u32> {
    let (lengths, batches_up_to) = histogram(longest, last);
    let mut paths = vec![Path::UNREACHED; lengths.len() + 1];
    paths[0] = Path::START;
    let mut hops = Vec::new();
    for _ in 0..budget.lengths_max.clamp(1, lengths.len()) {
        paths = one_rung_more(&paths, &lengths, &batches_up_to);
        hops.push(paths.clone());
    }
    walk_back(&hops, &lengths, budget.tokens_per_length)
}

/// The cheapest way to pad the batches of the first lengths: tokens, and the lengths that are
/// left below its last rung.
#[derive(Clone, Copy, Debug)]
struct Path {
    tokens: u64,
    below: usize,
}

impl Path {
    const START: Path = Path { tokens: 0, below: 0 };
    const UNREACHED: Path = Path { tokens: u64::MAX, below: 0 };
}

/// The distinct lengths, ascending, and how many batches are at most that long (from 0 lengths).
fn histogram(longest: &[u32], last: u32) -> (Vec<u32>, Vec<u64>) {
    let class = last.div_ceil(CLASSES).max(1);
    let rounded = |length: u32| (length.max(1).div_ceil(class) * class).min(last);
    let mut sorted: Vec<u32> = longest.iter().map(|&length| rounded(length)).collect();
    sorted.push(last);
    sorted.sort_unstable();
    let mut lengths = sorted.clone();
    lengths.dedup();
    let up_to = |length: &u32| sorted.partition_point(|other| other <= length) as u64;
    let batches_up_to = std::iter::once(0).chain(lengths.iter().map(up_to)).collect();
    (lengths, batches_up_to)
}

/// Extends the best paths of some number of rungs by one rung.
fn one_rung_more(paths: &[Path], lengths: &[u32], batches_up_to: &[u64]) -> Vec<Path> {
    let mut next = vec![Path::UNREACHED; paths.len()];
    for to in 1..paths.len() {
        for (from, path) in paths[..to].iter().enumerate() {
            let batches = batches_up_to[to] - batches_up_to[from];
            let tokens = path.tokens.saturating_add(u64::from(lengths[to - 1]) * batches);
            if tokens < next[to].tokens {
                next[to] = Path { tokens, below: from };
            }
        }
    }
    next
}

/// The rungs of the best path over all lengths; fewer of them where more save less than they cost.
fn walk_back(hops: &[Vec<Path>], lengths: &[u32], tokens_per_rung: u64) -> Vec<u32> {
    let mut at = lengths.len();
    let cost = |count: &usize| {
        let tokens = hops[*count].last().map_or(u64::MAX, |path| path.tokens);
        tokens.saturating_add(tokens_per_rung.saturating_mul(*count as u64))
    };
    let best = (0..hops.len()).min_by_key(cost).unwrap_or(0);
    let mut rungs = Vec::with_capacity(best + 1);
    for hop in hops[..=best].iter().rev() {
        rungs.push(lengths[at - 1]);
        at = hop[at].below;
    }
    rungs.reverse();
    rungs
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fit(longest: &[u32], last: u32, rungs_max: usize) -> Vec<u32> {
        super::fit(longest, last, LengthBudget::of(rungs_max))
    }

    fn tokens(longest: &[u32], ladder: &[u32]) -> u64 {
        let rung = |length: u32| ladder.iter().find(|&&rung| rung >= length);
        longest.iter().map(|&length| u64::from(*rung(length).expect("a rung holds it"))).sum()
    }

    #[test]
    fn rungs_stand_where_the_lengths_are() {
        let longest = [9, 9, 9, 9, 10, 30, 31, 31, 100];
        assert_eq!(fit(&longest, 100, 1), [100]);
        assert_eq!(fit(&longest, 100, 3), [10, 31, 100]);
        assert_eq!(fit(&longest, 100, 4), [9, 10, 31, 100]);
        assert_eq!(fit(&longest, 100, 50), [9, 10, 30, 31, 100]);
        assert_eq!(fit(&longest, 120, 3), [10, 31, 120]);
    }

    #[test]
    fn a_rung_must_save_its_price() {
        let longest = [9, 9, 9, 9, 10, 30, 31, 31, 100];
        let check = |tokens_per_length, expect: &[u32]| {
            let budget = LengthBudget { lengths_max: 50, tokens_per_length };
            assert_eq!(super::fit(&longest, 100, budget), expect);
        };
        check(0, &[9, 10, 30, 31, 100]);
        check(1, &[9, 10, 31, 100]);
        check(4, &[10, 31, 100]);
        check(200, &[31, 100]);
        check(1000, &[100]);
    }

    #[test]
    fn long_lengths_are_told_apart_in_classes() {
        let longest: Vec<u32> = (1..5000).collect();
        let ladder = fit(&longest, 8192, 12);
        assert_eq!((ladder.len(), ladder.last()), (12, Some(&8192)));
        assert!(ladder[..11].iter().all(|rung| rung.is_multiple_of(32)), "{ladder:?}");
    }

    proptest! {
        #[test]
        fn no_ladder_of_as_many_rungs_pads_less(
            longest in prop::collection::vec(1u32..12, 1..20),
            rungs in 1usize..4,
            others in prop::collection::btree_set(1u32..12, 1..3),
        ) {
            let ladder = fit(&longest, 12, rungs);
            prop_assert!(ladder.len() <= rungs && ladder.last() == Some(&12));
            prop_assert!(ladder.windows(2).all(|pair| pair[0] < pair[1]));
            let other: Vec<u32> = others.into_iter().take(rungs - 1).chain([12]).collect();
            prop_assert!(tokens(&longest, &ladder) <= tokens(&longest, &other));
        }
    }
}
