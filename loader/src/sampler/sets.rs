//! Batches of several sets of rows, each of one set, as sentence-transformers' `ProportionalBatchSampler` and
//! `RoundRobinBatchSampler` make them.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Sampler, SamplerConfig, SamplerError, SamplingStrategy};
use crate::batch::{BatchAxis, BatchSizes};
use crate::random::SplitMix64;

/// The place, behind those of all rows, of the generator that draws sets.
const SETS: u64 = u64::MAX;

/// The order in which sets take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetMixing {
    /// All batches of all sets, in random order; in sequential runs, those of one set after the other's.
    Proportional,
    /// A batch of each set in turns, until one has no further batch.
    RoundRobin,
}

/// The sizes that batches of a set have besides those of all batches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetBatches {
    /// [`BatchAxis::Sequences`].
    pub sequences: u32,
    /// [`BatchAxis::Objective`].
    pub objective: u32,
}

/// The sets of all rows.
#[derive(Clone, Debug)]
pub(super) struct RowSets {
    of_rows: Arc<[u32]>,
    sets: Arc<[SetBatches]>,
    mixing: SetMixing,
    /// The batches of each set in an epoch.
    batches: Arc<[usize]>,
}

impl RowSets {
    pub(super) fn new(
        of_rows: Arc<[u32]>,
        sets: Vec<SetBatches>,
        mixing: SetMixing,
        config: &SamplerConfig,
    ) -> Result<Self, SamplerError> {
        let mut rows = vec![0; sets.len()];
        for (row, set) in of_rows.iter().enumerate() {
            *rows.get_mut(*set as usize).ok_or(SamplerError::NoSuchRow { row })? += 1;
        }
        let batches: Vec<usize> = rows.iter().map(|rows| config.batches_of(*rows)).collect();
        if let Some(set) = batches.iter().position(|batches| *batches == 0) {
            let (rows, global_batch) = (rows[set], config.global_batch());
            return Err(SamplerError::NoBatchOfSet { set, rows, global_batch });
        }
        Ok(Self { of_rows, sets: sets.into(), mixing, batches: batches.into() })
    }

    fn set_of(&self, row: u32) -> usize {
        self.of_rows[row as usize] as usize
    }

    pub(super) fn batches_per_epoch(&self) -> usize {
        match self.mixing {
            SetMixing::Proportional => self.batches.iter().sum(),
            SetMixing::RoundRobin => {
                self.batches.len() * self.batches.iter().copied().min().unwrap_or(0)
            }
        }
    }

    /// The rows of an epoch's batches, of which `order` has all rows: each set's own in that order.
    pub(super) fn mixed(&self, sampler: &Sampler, order: &[u32], epoch: u64) -> Vec<u32> {
        let global_batch = sampler.config.global_batch();
        let mut of_sets: Vec<VecDeque<Vec<u32>>> = Vec::with_capacity(self.sets.len());
        for (set, batches) in self.batches.iter().enumerate() {
            let own = order.iter().copied().filter(|row| self.set_of(*row) == set);
            let own = sampler.arranged(own.collect());
            let own = own.chunks(global_batch).take(*batches).map(<[u32]>::to_vec);
            of_sets.push(own.collect());
        }
        let turns = self.turns(&sampler.config, epoch).into_iter();
        turns.filter_map(|set| of_sets[set].pop_front()).flatten().collect()
    }

    /// The set of each batch of an epoch.
    fn turns(&self, config: &SamplerConfig, epoch: u64) -> Vec<usize> {
        let sets = 0..self.batches.len();
        if self.mixing == SetMixing::RoundRobin {
            return sets.cycle().take(self.batches_per_epoch()).collect();
        }
        let batches_of = |set: usize| std::iter::repeat_n(set, self.batches[set]);
        let mut turns: Vec<usize> = sets.flat_map(batches_of).collect();
        if config.strategy != SamplingStrategy::Sequential {
            SplitMix64::of_row(config.seed, epoch, SETS).shuffle(&mut turns);
        }
        turns
    }

    /// The batches of an epoch: the rows up to the next set, at most `global_batch`. Only the last batch of a set has
    /// fewer.
    pub(super) fn cut<'order>(
        &self,
        order: &'order [u32],
        global_batch: usize,
    ) -> Vec<&'order [u32]> {
        let of_sets = order.chunk_by(|one, next| self.set_of(*one) == self.set_of(*next));
        of_sets.flat_map(|rows| rows.chunks(global_batch)).collect()
    }

    /// The sizes of a batch of `rows`.
    pub(super) fn with_sizes(&self, sizes: BatchSizes, rows: &[u32]) -> BatchSizes {
        let Some(row) = rows.first() else { return sizes };
        let SetBatches { sequences, objective } = self.sets[self.set_of(*row)];
        sizes.with(BatchAxis::Sequences, sequences).with(BatchAxis::Objective, objective)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::length_ladder::{LengthBudget, LengthLadder};

    const SETS_OF_ROWS: [u32; 13] = [0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2];

    fn sampler(mixing: SetMixing, strategy: SamplingStrategy, cores: usize) -> Sampler {
        let config =
            SamplerConfig { batch_per_core: 4 / cores, cores, seed: 3, strategy, drop_last: false };
        let lengths: Vec<u32> = (1..=SETS_OF_ROWS.len() as u32).collect();
        let ladder = LengthLadder::new(16, false).unwrap();
        let sets = (1..=3).map(|number| SetBatches { sequences: number + 1, objective: number });
        let sampler = Sampler::new(config, lengths, ladder).unwrap();
        sampler.in_sets(SETS_OF_ROWS.into(), sets.collect(), mixing).unwrap()
    }

    fn batches(sampler: &Sampler, epoch: u64) -> Vec<(Vec<u32>, BatchSizes)> {
        let plan = sampler.epoch(epoch);
        assert_eq!(plan.len(), sampler.batches_per_epoch());
        plan.batches().map(|plan| (plan.rows, plan.sizes)).collect()
    }

    fn rows(sampler: &Sampler, epoch: u64) -> Vec<Vec<u32>> {
        batches(sampler, epoch).into_iter().map(|(rows, _)| rows).collect()
    }

    #[test]
    fn sets_take_turns_until_one_has_ended() {
        let sampler = sampler(SetMixing::RoundRobin, SamplingStrategy::Sequential, 2);
        let expect: [&[u32]; 3] = [&[0, 1, 2, 3], &[7, 8, 9], &[10, 11, 12]];
        assert_eq!(rows(&sampler, 0), expect);
    }

    #[test]
    fn all_batches_of_all_sets_come_in_random_order() {
        let in_order = sampler(SetMixing::Proportional, SamplingStrategy::Sequential, 2);
        let expect: [&[u32]; 4] = [&[0, 1, 2, 3], &[4, 5, 6], &[7, 8, 9], &[10, 11, 12]];
        assert_eq!(rows(&in_order, 0), expect);
        let sampler = |cores| sampler(SetMixing::Proportional, SamplingStrategy::Random, cores);
        let mut seen = Vec::new();
        for epoch in 0..8 {
            let found = batches(&sampler(1), epoch);
            assert_eq!(rows(&sampler(4), epoch), rows(&sampler(1), epoch), "on any cores");
            for (rows, sizes) in &found {
                let set = SETS_OF_ROWS[rows[0] as usize];
                assert!(rows.iter().all(|row| SETS_OF_ROWS[*row as usize] == set), "{rows:?}");
                assert_eq!(sizes.get(BatchAxis::Objective), set as usize + 1);
                assert_eq!(sizes.get(BatchAxis::Sequences), set as usize + 2);
            }
            let mut all: Vec<u32> = found.iter().flat_map(|(rows, _)| rows.clone()).collect();
            seen.push(all.clone());
            all.sort_unstable();
            assert_eq!(all, (0..13).collect::<Vec<u32>>());
        }
        seen.dedup();
        assert_eq!(seen.len(), 8, "each epoch has its own order");
    }

    #[test]
    fn batches_are_padded_and_resumed_as_planned() {
        let sampler = sampler(SetMixing::Proportional, SamplingStrategy::Random, 2);
        let fitted = sampler.fitted(LengthBudget::of(2)).unwrap();
        let run = |from| fitted.run(from, 10).collect::<Vec<_>>();
        assert_eq!(run(0)[6..], run(6)[..]);
        let uses = fitted.first_uses(0..10);
        for batch in run(0) {
            let longest = batch.plan.rows.iter().max().unwrap() + 1;
            assert!(batch.plan.sizes.get(BatchAxis::Positions) >= longest as usize);
            assert!(uses.iter().any(|(_, sizes)| *sizes == batch.plan.sizes));
        }
    }

    #[test]
    fn a_set_without_a_batch_is_refused() {
        let config = SamplerConfig {
            batch_per_core: 2,
            cores: 2,
            seed: 0,
            strategy: SamplingStrategy::Random,
            drop_last: true,
        };
        let ladder = LengthLadder::new(16, false).unwrap();
        let sampler = Sampler::new(config, vec![1; 13], ladder).unwrap();
        let sets = vec![SetBatches::default(); 3];
        let error =
            sampler.in_sets(SETS_OF_ROWS.into(), sets, SetMixing::Proportional).unwrap_err();
        assert_eq!(
            error.to_string(),
            "set 2 of data.train has 3 rows with texts, which make no batch of 4"
        );
    }
}
