//! The set that each row is from, as `interleave_datasets` of `datasets` has it.

use serde::Serialize;

use super::pcg::Pcg64;
use crate::error::{Error, Result};

/// How the rows of several sets follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Mixing {
    /// One set behind the other.
    Concatenate,
    /// Takes rows in turns, until one of the sets ends.
    FirstExhausted,
    /// Takes rows in turns, until all sets have ended; those that end before begin again.
    AllExhausted,
    /// Takes rows in turns until all sets have ended, each row once.
    WithoutReplacement,
}

/// Returns the set of each row, in order.
pub(super) struct Order {
    mixing: Mixing,
    lengths: Vec<u64>,
    /// Rows of each set so far.
    taken: Vec<u64>,
    draws: Draws,
}

/// The next set to look at.
enum Draws {
    /// One after the other, from this one on.
    Turns(usize),
    /// Draws the set of each row by the sums of the probabilities of all sets up to each.
    Random { generator: Pcg64, sums: Vec<f64> },
}

/// How far a sum of probabilities may be from 1, as in numpy.
const TOLERANCE: f64 = 1e-8;

impl Order {
    /// The order of sets with `lengths` rows. Where they have `weights`, sets are drawn by `seed`.
    pub(super) fn new(
        mixing: Mixing,
        lengths: Vec<u64>,
        weights: Option<&[f64]>,
        seed: u64,
    ) -> Result<Self> {
        let bad = |message: String| Error::BadOption { field: "data.mixing", message };
        if let Some(set) = lengths.iter().position(|length| *length == 0) {
            let problem =
                format!("cannot take turns with set {set}, which has no rows: leave it out");
            return Err(bad(problem));
        }
        let draws = match weights {
            None => Draws::Turns(0),
            Some(weights) => {
                let total: f64 = weights.iter().sum();
                let is_never_drawn = |weight: &f64| *weight == 0.0;
                if total <= 0.0 || weights.iter().any(is_never_drawn) {
                    return Err(bad("needs a weight above 0 for each set".to_owned()));
                }
                let scale = if (total - 1.0).abs() < TOLERANCE { 1.0 } else { total };
                Draws::Random { generator: Pcg64::new(seed), sums: sums(weights, scale) }
            }
        };
        Ok(Self { mixing, taken: vec![0; lengths.len()], lengths, draws })
    }

    fn has_ended(&self) -> bool {
        let mut ended = self.taken.iter().zip(&self.lengths).map(|(taken, length)| taken >= length);
        match (self.mixing, &self.draws) {
            // Turns are whole rounds.
            (Mixing::FirstExhausted, Draws::Turns(next)) => *next == 0 && ended.any(|it| it),
            (Mixing::AllExhausted, Draws::Turns(next)) => *next == 0 && ended.all(|it| it),
            (Mixing::FirstExhausted, _) => ended.any(|it| it),
            _ => ended.all(|it| it),
        }
    }

    fn draw(&mut self) -> usize {
        let sets = self.lengths.len();
        match &mut self.draws {
            Draws::Turns(next) => std::mem::replace(next, (*next + 1) % sets),
            Draws::Random { generator, sums } => {
                let place = generator.unit();
                sums.iter().position(|sum| place < *sum).unwrap_or(sets - 1)
            }
        }
    }
}

impl Iterator for Order {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        if self.mixing == Mixing::Concatenate {
            let set =
                self.taken.iter().zip(&self.lengths).position(|(taken, rows)| taken < rows)?;
            self.taken[set] += 1;
            return Some(set);
        }
        while !self.has_ended() {
            let set = self.draw();
            let is_used_up = self.taken[set] >= self.lengths[set];
            if !(is_used_up && self.mixing == Mixing::WithoutReplacement) {
                self.taken[set] += 1;
                return Some(set);
            }
        }
        None
    }
}

/// The sums of probabilities, as numpy's `choice` computes them.
fn sums(weights: &[f64], scale: f64) -> Vec<f64> {
    let mut sum = 0.0;
    let sums: Vec<f64> = weights
        .iter()
        .map(|weight| {
            sum += weight / scale;
            sum
        })
        .collect();
    let last = sums.last().copied().unwrap_or(1.0);
    sums.into_iter().map(|sum| sum / last).collect()
}
