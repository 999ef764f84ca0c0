//! The fixed ladder of padded lengths. Few lengths mean few compiled programs; steps of at most a
//! half from one rung to the next keep padding small, and rungs that stand where the lengths of a
//! known set are keep it smaller still.

mod fit;

use crate::error::{Error, Result};

/// The number of padded lengths that pay: each saves padding, and costs the compilation of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LengthBudget {
    /// The most lengths.
    pub lengths_max: usize,
    /// The tokens of padding that a length must save, of one row in each batch of an epoch.
    pub tokens_per_length: u64,
}

impl LengthBudget {
    /// Allows as many as `lengths_max` lengths, if each saves any padding.
    pub fn of(lengths_max: usize) -> Self {
        Self { lengths_max, tokens_per_length: 0 }
    }

    /// Scales the tokens that each length has to save to `batches` of `of_batches` batches.
    pub(crate) fn for_part(self, batches: usize, of_batches: usize) -> Self {
        let tokens =
            u128::from(self.tokens_per_length) * batches as u128 / of_batches.max(1) as u128;
        Self { tokens_per_length: tokens as u64, ..self }
    }
}

/// The padded lengths a run may use, ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LengthLadder {
    rungs: Vec<u32>,
}

impl LengthLadder {
    /// 8, 12, 16, 20, 24, 32, 40, 48, 64 … (1, 1.25 and 1.5 times each power of two), ending at
    /// `max_length`. With `pad_to_max_length` that is the only rung.
    pub fn new(max_length: u32, pad_to_max_length: bool) -> Result<Self> {
        let rungs = if pad_to_max_length { Vec::new() } else { rungs_below(max_length) };
        Self::from_rungs(rungs.into_iter().chain([max_length]).collect())
    }

    /// The same ladder with each rung rounded up to a multiple (`pad_to_multiple_of`), the last
    /// one too, as transformers pads.
    pub fn padded_to_multiple_of(&self, multiple: u32) -> Result<Self> {
        if multiple == 0 {
            let message = "must be at least 1".to_owned();
            return Err(Error::BadOption { field: "data.pad_to_multiple_of", message });
        }
        let rungs =
            self.rungs.iter().map(|rung| rung.saturating_add(multiple - 1) / multiple * multiple);
        let mut rungs: Vec<u32> = rungs.collect();
        rungs.dedup();
        Self::from_rungs(rungs)
    }

    /// The ladder within `budget` that adds the least padding to batches of which `longest_rows` are
    /// the longest rows. Its last rung is `last`, or the longest of those.
    pub fn fitted(longest_rows: &[u32], last: u32, budget: LengthBudget) -> Result<Self> {
        let last = longest_rows.iter().copied().fold(last, u32::max);
        Self::from_rungs(fit::fit(longest_rows, last, budget))
    }

    /// The same ladder with the rungs of `other` that are above it.
    pub(crate) fn continued(&self, other: &Self) -> Result<Self> {
        let above = other.rungs.iter().filter(|rung| **rung > self.longest());
        Self::from_rungs(self.rungs.iter().chain(above).copied().collect())
    }

    /// The given ladder, which must be positive and ascending.
    pub fn from_rungs(rungs: Vec<u32>) -> Result<Self> {
        let ascending = rungs.windows(2).all(|pair| pair[0] < pair[1]);
        if rungs.first().is_none_or(|&first| first == 0) || !ascending {
            return Err(Error::BadOption {
                field: "length_ladder",
                message: format!("must be positive and ascending, found {rungs:?}"),
            });
        }
        Ok(Self { rungs })
    }

    /// The smallest rung that holds `length` tokens; None above the last.
    pub fn rung(&self, length: u32) -> Option<u32> {
        let rung = self.rungs.partition_point(|&rung| rung < length);
        self.rungs.get(rung).copied()
    }

    /// The longest row the ladder holds.
    pub fn longest(&self) -> u32 {
        self.rungs.last().copied().unwrap_or(0)
    }

    /// All rungs, ascending.
    pub fn rungs(&self) -> &[u32] {
        &self.rungs
    }
}

fn rungs_below(max_length: u32) -> Vec<u32> {
    let powers = (3..31).map(|exponent| 1u32 << exponent);
    powers
        .flat_map(|power| [power, power / 4 * 5, power / 2 * 3])
        .filter(|&rung| rung != 10) // half a rung between 8 and 12 saves too little for a program
        .take_while(|&rung| rung < max_length)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ladder_ends_at_max_length() {
        let check = |max_length, expect: &[u32]| {
            assert_eq!(LengthLadder::new(max_length, false).unwrap().rungs(), expect);
        };
        check(1, &[1]);
        check(8, &[8]);
        check(50, &[8, 12, 16, 20, 24, 32, 40, 48, 50]);
        check(512, &[8, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128, 160, 192, 256, 320, 384, 512]);
    }

    #[test]
    fn a_length_goes_to_the_smallest_rung_that_holds_it() {
        let ladder = LengthLadder::new(64, false).unwrap();
        for length in 0..=64 {
            let padded = ladder.rung(length).unwrap();
            let below = ladder.rungs().iter().rev().find(|&&rung| rung < padded);
            assert!(padded >= length && below.is_none_or(|&rung| rung < length));
        }
        assert_eq!(ladder.rung(65), None);
    }

    #[test]
    fn pad_to_max_length_leaves_one_rung() {
        assert_eq!(LengthLadder::new(128, true).unwrap().rungs(), [128]);
    }

    #[test]
    fn rungs_may_be_multiples() {
        let check = |multiple, expect: &[u32]| {
            let ladder =
                LengthLadder::new(50, false).unwrap().padded_to_multiple_of(multiple).unwrap();
            assert_eq!(ladder.rungs(), expect);
        };
        check(1, &[8, 12, 16, 20, 24, 32, 40, 48, 50]);
        check(8, &[8, 16, 24, 32, 40, 48, 56]);
        check(64, &[64]);
        assert!(LengthLadder::new(50, false).unwrap().padded_to_multiple_of(0).is_err());
    }

    #[test]
    fn a_ladder_must_ascend() {
        for rungs in [vec![], vec![0, 8], vec![16, 8], vec![8, 8]] {
            assert!(LengthLadder::from_rungs(rungs).is_err());
        }
    }
}
