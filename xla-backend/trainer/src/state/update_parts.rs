//! The parts in which a stage updates its parameters where the optimizer's state is in host memory: each is
//! a program, so that only a part of the state is on the cores at one time.

use std::ops::Range;

use super::parameter::ParameterState;

/// The most parts of an update.
const PARTS_MAX: u64 = 8;
/// Parts whose state is on the cores at one time: one computes while the next is loaded.
pub(crate) const PARTS_IN_FLIGHT: usize = 2;

/// Parameters that one program updates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpdatePart {
    /// The places of the parameters among those of the stage.
    pub parameters: Range<usize>,
    /// Whether the program ends the step: it resets what is no parameter's.
    pub is_last: bool,
}

/// Divides `parameters` into parts with about as much state each.
pub(super) fn divided(parameters: &[ParameterState]) -> Vec<UpdatePart> {
    let bytes: Vec<u64> = parameters.iter().map(ParameterState::optimizer_bytes).collect();
    let ranges = ranges(&bytes);
    let last = ranges.len() - 1;
    let part = |(index, parameters)| UpdatePart { parameters, is_last: index == last };
    ranges.into_iter().enumerate().map(part).collect()
}

/// Consecutive ranges of about equal sums, at least one.
fn ranges(bytes: &[u64]) -> Vec<Range<usize>> {
    let least = bytes.iter().sum::<u64>().div_ceil(PARTS_MAX).max(1);
    let (mut ranges, mut start, mut sum) = (Vec::new(), 0, 0);
    for (index, bytes) in bytes.iter().enumerate() {
        sum += bytes;
        if sum >= least {
            ranges.push(start..index + 1);
            (start, sum) = (index + 1, 0);
        }
    }
    match ranges.last_mut() {
        // What is left is less than a part.
        Some(last) => last.end = bytes.len(),
        None => ranges.push(0..bytes.len()),
    }
    ranges
}

/// The most bytes of parts that are on the cores at one time.
pub(super) fn largest_in_flight(bytes: impl Iterator<Item = u64>) -> u64 {
    let bytes: Vec<u64> = bytes.collect();
    let sums = bytes.windows(PARTS_IN_FLIGHT.min(bytes.len()).max(1));
    sums.map(|window| window.iter().sum()).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_about_as_much_state_each() {
        assert_eq!(ranges(&[1; 16]), (0..8).map(|part| 2 * part..2 * part + 2).collect::<Vec<_>>());
        // Small parameters before a large one are in its part, and few that are left in the last.
        assert_eq!(ranges(&[1, 80, 10, 10, 5, 5, 2]), [0..2, 2..7]);
        for whole in [0..3, 0..0] {
            assert_eq!(ranges(&vec![0; whole.end]).iter().collect::<Vec<_>>(), [&whole]);
        }
        assert_eq!(largest_in_flight([10, 5, 7, 3].into_iter()), 15);
        assert_eq!(largest_in_flight([10].into_iter()), 10);
        assert_eq!(largest_in_flight([].into_iter()), 0);
    }
}
