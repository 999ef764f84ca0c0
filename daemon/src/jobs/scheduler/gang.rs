//! Selection of a job's cores.

use std::collections::BTreeSet;

use super::{Active, Rules};

/// Returns the lowest `size` free cores, or `None` if there are too few.
pub(super) fn gang<'a>(
    rules: Rules<'_>,
    active: impl Iterator<Item = &'a Active>,
    size: u32,
) -> Option<Vec<u32>> {
    let mut free: BTreeSet<u32> = rules.cores.iter().copied().collect();
    for core in active.flat_map(|job| &job.cores) {
        free.remove(core);
    }
    if rules.aligned { aligned(&free, size) } else { any(&free, size) }
}

fn any(free: &BTreeSet<u32>, size: u32) -> Option<Vec<u32>> {
    (free.len() >= size as usize).then(|| free.iter().copied().take(size as usize).collect())
}

/// Aligned ranges of sizes 1, 2, 4 ... leave no unusable gaps.
fn aligned(free: &BTreeSet<u32>, size: u32) -> Option<Vec<u32>> {
    let starts = free.iter().copied().filter(|core| core.is_multiple_of(size.max(1)));
    let mut ranges = starts.map(|start| start..start.saturating_add(size));
    ranges.find(|range| range.clone().all(|core| free.contains(&core))).map(Iterator::collect)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(aligned: bool, held: &[u32], size: u32, expect: Option<&[u32]>) {
        let cores: Vec<u32> = (0..8).collect();
        let rules = Rules { cores: &cores, aligned, ..Rules::default() };
        let active = [Active { cores: held.to_vec(), ..Active::default() }];
        assert_eq!(gang(rules, active.iter(), size).as_deref(), expect);
    }

    #[test]
    fn a_gang_gets_the_lowest_free_cores() {
        check(false, &[1], 2, Some(&[0, 2]));
        check(false, &[1, 2, 3, 4, 5, 6], 3, None);
    }

    #[test]
    fn an_aligned_gang_is_a_range_at_a_multiple_of_its_size() {
        check(true, &[1], 2, Some(&[2, 3]));
        check(true, &[1], 4, Some(&[4, 5, 6, 7]));
        check(true, &[1, 6], 4, None);
        check(true, &[], 8, Some(&[0, 1, 2, 3, 4, 5, 6, 7]));
    }
}
