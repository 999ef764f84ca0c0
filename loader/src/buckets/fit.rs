//! The ladder that pads a known set of batches least: a shortest path over the sorted lengths,
//! one edge a rung.

/// Lengths are rounded to at most this many classes, which bounds the search.
const CLASSES: u32 = 256;

/// At most `rungs_max` rungs, ascending, that pad `longest` (the longest row of each batch) with
/// the fewest tokens in all. The last rung is `last`, at least as long as any of them.
pub(super) fn fit(longest: &[u32], last: u32, rungs_max: usize) -> Vec<u32> {
    let (lengths, batches_up_to) = histogram(longest, last);
    let mut paths = vec![Path::UNREACHED; lengths.len() + 1];
    paths[0] = Path::START;
    let mut hops = Vec::new();
    for _ in 0..rungs_max.clamp(1, lengths.len()) {
        paths = one_rung_more(&paths, &lengths, &batches_up_to);
        hops.push(paths.clone());
    }
    walk_back(&hops, &lengths)
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

/// From the best paths of some number of rungs to those of one more.
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

/// The rungs of the best path over all lengths; fewer of them where more save nothing.
fn walk_back(hops: &[Vec<Path>], lengths: &[u32]) -> Vec<u32> {
    let mut at = lengths.len();
    let cost = |count: &usize| hops[*count].last().map_or(u64::MAX, |path| path.tokens);
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
