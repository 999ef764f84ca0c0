//! A sample of an epoch's batches. It stands for all where the lengths of the other rows are not
//! known yet.

use super::Sampler;
use crate::batch::BatchSizes;
use crate::error::Result;
use crate::length_ladder::LengthBudget;

/// Rows of a sample, if they make enough batches.
const ROWS: usize = 2048;

/// The fewest batches of a sample.
const BATCHES_MIN: usize = 32;

impl Sampler {
    /// The rows of a sample of batches. Like the order in which rows are shuffled, they depend on
    /// the number of rows and the global batch alone.
    pub fn sampled_rows(&self) -> Vec<u32> {
        self.sample().concat()
    }

    /// The sizes of the sampled batches, without repetition.
    pub fn sampled_sizes(&self) -> Vec<BatchSizes> {
        let batches = self.batches_of_sample().into_iter();
        let mut sizes: Vec<BatchSizes> = batches.map(|batch| batch.sizes).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    }

    /// Fits as [`Self::fitted`], by the lengths of [`Self::sampled_rows`] alone. The ladder continues to
    /// the longest rung, which longer rows need.
    pub fn fitted_to_sample(&self, budget: LengthBudget) -> Result<Self> {
        let sample = self.sample();
        let batches: Vec<&[u32]> = sample.iter().map(Vec::as_slice).collect();
        let budget = self.budget_of_axis(budget);
        let budget = budget.for_part(batches.len(), self.batches_per_epoch());
        let axes = self.axes.iter().map(|axis| axis.fitted_to_sample(&batches, budget));
        Ok(Self { axes: axes.collect::<Result<_>>()?, ..self.clone() })
    }

    /// Batches at equal distances in an epoch of any run. Which rows they have depends on no length.
    pub(super) fn sample(&self) -> Vec<Vec<u32>> {
        let order = self.with_any_seed().order_of_batches(0);
        let batches = self.cut(&order);
        let count = (ROWS / self.config.global_batch()).max(BATCHES_MIN).min(batches.len());
        let chosen = (0..count).map(|index| batches[index * batches.len() / count]);
        chosen.map(|rows| self.dealt(rows)).collect()
    }
}
