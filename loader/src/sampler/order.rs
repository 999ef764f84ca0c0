//! The order in which one epoch visits the rows.

use super::{Sampler, SamplingStrategy};
use crate::random::SplitMix64;

/// Megabatches hold at most this many global batches, as in transformers' LengthGroupedSampler.
const MEGABATCH_MAX: usize = 50;

/// The rows of one epoch, in the order in which they are trained on.
pub(super) fn epoch_order(sampler: &Sampler, epoch: u64) -> Vec<u32> {
    let mut rows: Vec<u32> = (0..sampler.lengths().len() as u32).collect();
    let config = sampler.config();
    let mut random = SplitMix64::of_epoch(config.seed, epoch);
    match config.strategy {
        SamplingStrategy::Sequential => {}
        SamplingStrategy::Random => random.shuffle(&mut rows),
        SamplingStrategy::GroupByLength => {
            random.shuffle(&mut rows);
            let batches = group(rows, sampler.lengths(), config.global_batch());
            rows = in_random_order(batches, sampler.lengths(), &mut random, epoch == 0);
        }
    }
    rows
}

/// Sorts each megabatch of the shuffled rows by length, longest first, and cuts it into global
/// batches. Only the last batch may be partial.
fn group(mut rows: Vec<u32>, lengths: &[u32], global_batch: usize) -> Vec<Vec<u32>> {
    let batches_in_megabatch = (rows.len() / (global_batch * 4)).clamp(1, MEGABATCH_MAX);
    for megabatch in rows.chunks_mut(batches_in_megabatch * global_batch) {
        megabatch.sort_by_key(|&row| std::cmp::Reverse(lengths[row as usize]));
    }
    rows.chunks(global_batch).map(<[u32]>::to_vec).collect()
}

/// Shuffles the full batches, so that an epoch does not run from long to short again and again
/// (transformers leaves them sorted). The first epoch starts with the longest one, so that a run
/// that does not fit into memory fails at once; later epochs need no such probe.
fn in_random_order(
    mut batches: Vec<Vec<u32>>,
    lengths: &[u32],
    random: &mut SplitMix64,
    longest_first: bool,
) -> Vec<u32> {
    let global_batch = batches.first().map_or(0, Vec::len);
    let full = batches.iter().take_while(|batch| batch.len() == global_batch).count();
    random.shuffle(&mut batches[..full]);
    // A batch is sorted, so its first row is its longest.
    let longest = (0..full).rev().max_by_key(|&batch| lengths[batches[batch][0] as usize]);
    if let Some(longest) = longest.filter(|_| longest_first) {
        batches.swap(0, longest);
    }
    batches.concat()
}
