//! The memory of a program over time, and with it that of longer programs that repeat the same operations.
//!
//! A program that has a layer more runs the operations of that layer besides, in a few places: in the forward
//! pass, in the backward pass and in the update. Between two repetitions everything stays the same, so the
//! bytes at each operation grow by the same number with each layer: by one number at operations whose
//! distance from the first layer is kept, and by another at those whose distance from the last one is. The
//! first or the last repetition of a layer's operations has the most bytes.

use std::cmp::Reverse;

/// The bytes besides arguments at each operation of a program, in the order in which they run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryProfile {
    sites: Vec<Site>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// A hash that operations share which do the same.
    pub operation: u64,
    pub alive: u64,
}

impl MemoryProfile {
    pub(super) fn new(sites: Vec<Site>) -> MemoryProfile {
        MemoryProfile { sites }
    }

    /// The most bytes at one time.
    pub fn peak(&self) -> u64 {
        self.sites.iter().map(|site| site.alive).max().unwrap_or(0)
    }

    /// The most bytes of a program that repeats what each of `longer` has besides this one so many times.
    /// `None` where one of them is not this program with further operations.
    pub fn extrapolated(&self, longer: &[(MemoryProfile, u64)]) -> Option<u64> {
        let mut alive: Vec<i64> = self.sites.iter().map(|site| site.alive as i64).collect();
        for (longer, times) in longer {
            let growth = self.growth(longer)?;
            alive.iter_mut().zip(growth).for_each(|(alive, more)| *alive += *times as i64 * more);
        }
        Some(alive.into_iter().max().unwrap_or(0).max(0) as u64)
    }

    /// Returns the bytes that `longer` has more at each operation, whichever of its repetitions stands for it.
    fn growth(&self, longer: &MemoryProfile) -> Option<Vec<i64>> {
        let operations = |it: &MemoryProfile| it.sites.iter().map(|site| site.operation).collect();
        let [mut own, mut more]: [Vec<u64>; 2] = [operations(self), operations(longer)];
        let from_start = places(&own, &more)?;
        own.reverse();
        more.reverse();
        let from_end = places(&own, &more)?.into_iter().rev().map(|place| more.len() - 1 - place);
        let places: Vec<[usize; 2]> =
            from_start.into_iter().zip(from_end).map(|(start, end)| [start, end]).collect();
        let alive = |place: usize| longer.sites[place].alive as i64;
        let growth = self.sites.iter().enumerate().map(|(at, site)| {
            let [start, end] = places[at];
            let most = match repetitions(&places, at) {
                [false, true] => alive(start),
                [true, false] => alive(end),
                _ => alive(start).max(alive(end)),
            };
            most - site.alive as i64
        });
        Some(growth.collect())
    }
}

/// Whether the same operation is repeated before and behind a site, where `places` are the sites' places in a longer
/// program, by distance from its start and from its end. They differ by the length of a repetition.
fn repetitions(places: &[[usize; 2]], at: usize) -> [bool; 2] {
    let length = |at: usize| places.get(at).map(|[start, end]| end.abs_diff(*start));
    let own = length(at).unwrap_or(0);
    let is_same = |other: Option<usize>| own > 0 && other.and_then(length) == Some(own);
    [is_same(at.checked_sub(own)), is_same(at.checked_add(own))]
}

/// The places of the items of `shorter` in `longer`, which has others between them. Where several items
/// could be left out, those are after which the most items are the same; where all are, both end together.
fn places(shorter: &[u64], longer: &[u64]) -> Option<Vec<usize>> {
    let mut surplus = longer.len().checked_sub(shorter.len())?;
    let (mut places, mut skipped) = (Vec::with_capacity(shorter.len()), 0);
    loop {
        let at = places.len();
        let same = common(&shorter[at..], &longer[at + skipped..]);
        places.extend(at + skipped..at + skipped + same);
        let (rest, at) = (&shorter[places.len()..], places.len() + skipped);
        if rest.is_empty() {
            return Some(places);
        }
        let skips = (1..=surplus).map(|skip| {
            let same = common(rest, &longer[at + skip..]);
            (same, same == rest.len() && skip == surplus, Reverse(skip))
        });
        let (_, _, Reverse(skip)) = skips.max().filter(|(same, ..)| *same > 0)?;
        skipped += skip;
        surplus -= skip;
    }
}

/// The number of items that are the same from the start on.
fn common(a: &[u64], b: &[u64]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A forward and a backward pass of layers that keep `kept` bytes each, between them a head that takes
    /// `head`, and gradients of `gradient` that stay.
    fn profile(layers: u64, [kept, head, gradient]: [u64; 3]) -> MemoryProfile {
        let mut sites = vec![Site { operation: 1, alive: 0 }];
        for layer in 1..=layers {
            sites.push(Site { operation: 2, alive: kept * layer + 5 });
            sites.push(Site { operation: 3, alive: kept * layer });
        }
        sites.push(Site { operation: 4, alive: kept * layers + head });
        for layer in (1..=layers).rev() {
            let gradients = gradient * (layers - layer + 1);
            sites.push(Site { operation: 2, alive: kept * layer + gradients });
            sites.push(Site { operation: 5, alive: kept * (layer - 1) + gradients });
        }
        sites.push(Site { operation: 6, alive: gradient * layers });
        MemoryProfile::new(sites)
    }

    #[test]
    fn a_longer_program_has_its_peak_where_it_has_most() {
        // In the last layer, in the head, or at the end.
        for sizes in [[10, 0, 1], [10, 40, 1], [10, 40, 11], [10, 1000, 11], [0, 100, 30]] {
            for layers in 2..40 {
                let (short, long) = (profile(2, sizes), profile(3, sizes));
                let found = short.extrapolated(&[(long, layers - 2)]);
                assert_eq!(found, Some(profile(layers, sizes).peak()), "{sizes:?} {layers}");
            }
        }
    }

    #[test]
    fn what_is_freed_in_the_last_repetition_alone_does_not_grow_as_in_the_others() {
        // Each layer keeps bytes up to the last one, in the middle of which all of them are freed.
        let profile = |layers: u64| {
            let layer = |layer: u64| {
                let site = move |operation| {
                    let is_freed = layer == layers && operation > 2;
                    Site { operation, alive: if is_freed { 5 } else { 100 * layer + 10 * layers } }
                };
                (1..=4).map(site)
            };
            let ends = |operation| Site { operation, alive: 0 };
            let sites = [ends(9)].into_iter().chain((1..=layers).flat_map(layer));
            MemoryProfile::new(sites.chain([ends(8)]).collect())
        };
        for layers in 2..20 {
            let found = profile(2).extrapolated(&[(profile(3), layers - 2)]);
            assert_eq!(found, Some(profile(layers).peak()), "{layers}");
        }
    }

    #[test]
    fn another_program_is_not_a_longer_one() {
        let (short, other) = (profile(2, [10, 40, 1]), profile(3, [10, 40, 1]));
        assert_eq!(other.extrapolated(&[(short.clone(), 1)]), None);
        let mut changed = other.clone();
        changed.sites.iter_mut().for_each(|site| site.operation += 1);
        assert_eq!(short.extrapolated(&[(changed, 1)]), None);
        assert_eq!(short.extrapolated(&[]), Some(short.peak()));
    }

    #[test]
    fn items_are_found_between_others() {
        assert_eq!(places(&[1, 2, 3, 4], &[1, 2, 3, 2, 3, 4]), Some(vec![0, 1, 2, 5]));
        assert_eq!(places(&[1, 2, 3], &[1, 2, 3, 3]), Some(vec![0, 1, 2]));
        // The last item is that at the end, and not the like one within what is repeated.
        let repeated = [1, 5, 9, 7, 5, 9, 7, 9];
        assert_eq!(places(&[1, 5, 9, 7, 9], &repeated), Some(vec![0, 1, 2, 3, 7]));
        assert_eq!(places(&[1, 2], &[2, 1]), None);
    }
}
