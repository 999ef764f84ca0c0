//! Plans the rows of each batch: pure arithmetic on row counts and lengths, done before the first
//! step.
//!
//! It keeps the guarantees of PyTorch's `DistributedSampler` (disjoint shards, as many batches on
//! every core, a new order each epoch) and adds two: the global batch does not depend on the number
//! of cores, and no row is repeated to fill the last batch.

mod gather;
mod order;
mod plan;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;

pub use gather::GatherInOrder;
pub use plan::{BatchPlan, EpochPlan, ScheduledBatch};

use crate::Buckets;

/// The order of the rows (`train_sampling_strategy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingStrategy {
    /// A new shuffle each epoch.
    Random,
    /// Data set order, each epoch.
    Sequential,
    /// Shuffled, then rows of like length together: least padding.
    GroupByLength,
}

/// The settings of a [`Sampler`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SamplerConfig {
    /// Rows of one core in a batch (`per_device_train_batch_size`).
    pub batch_per_core: usize,
    pub cores: usize,
    pub seed: u64,
    pub strategy: SamplingStrategy,
    /// Leaves out the last partial batch of an epoch (`dataloader_drop_last`).
    pub drop_last: bool,
}

impl SamplerConfig {
    /// Rows of all cores in one batch.
    pub fn global_batch(&self) -> usize {
        self.batch_per_core * self.cores
    }
}

/// Plans every epoch of a run over rows of known lengths. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Sampler {
    config: SamplerConfig,
    lengths: Arc<[u32]>,
    buckets: Buckets,
}

impl Sampler {
    /// `lengths` are the token counts of all rows. Fails on an empty set or batch, on rows beyond
    /// the longest bucket, and where `drop_last` would leave no batch.
    pub fn new(
        config: SamplerConfig,
        lengths: impl Into<Arc<[u32]>>,
        buckets: Buckets,
    ) -> Result<Self, SamplerError> {
        let sampler = Self { config, lengths: lengths.into(), buckets };
        sampler.validate()?;
        Ok(sampler)
    }

    fn validate(&self) -> Result<(), SamplerError> {
        let (rows, global_batch) = (self.lengths.len(), self.config.global_batch());
        if global_batch == 0 {
            return Err(SamplerError::EmptyBatch);
        }
        if rows == 0 {
            return Err(SamplerError::NoRows);
        }
        if self.config.drop_last && rows < global_batch {
            return Err(SamplerError::NothingLeft { rows, global_batch });
        }
        let longest = self.buckets.longest();
        match self.lengths.iter().position(|&length| length > longest) {
            Some(row) => Err(SamplerError::TooLong { row, length: self.lengths[row], longest }),
            None => Ok(()),
        }
    }

    /// The same rows in the same batches, padded to a ladder of at most `rungs_max` lengths: those
    /// that suit an epoch's batches best. It depends on the rows and the global batch alone, so a
    /// run with another seed, on more cores or resumed pads alike and finds its programs compiled.
    pub fn fitted(&self, rungs_max: usize) -> crate::Result<Self> {
        let mut any_seed = self.clone();
        any_seed.config.seed = 0;
        let order = any_seed.order(0);
        let longest_rows: Vec<u32> = self.longest_rows(&order).collect();
        let longest = self.lengths.iter().copied().max().unwrap_or(0);
        let buckets = Buckets::fitted(&longest_rows, longest, rungs_max)?;
        Ok(Self { buckets, ..self.clone() })
    }

    /// The settings it was built from.
    pub fn config(&self) -> &SamplerConfig {
        &self.config
    }

    /// The token counts of all rows.
    pub fn lengths(&self) -> &[u32] {
        &self.lengths
    }

    /// The number of batches in every epoch.
    pub fn batches_per_epoch(&self) -> usize {
        let global_batch = self.config.global_batch();
        match self.config.drop_last {
            true => self.lengths.len() / global_batch,
            false => self.lengths.len().div_ceil(global_batch),
        }
    }

    /// The plan of one epoch, a pure function of the settings and `epoch`.
    pub fn epoch(&self, epoch: u64) -> EpochPlan {
        let order = self.order(epoch);
        // `new` made sure that every row has a bucket.
        let padded = |longest| self.buckets.bucket(longest).unwrap_or(longest);
        EpochPlan {
            batch_lengths: self.longest_rows(&order).map(padded).collect(),
            order: order.into(),
            batch_per_core: self.config.batch_per_core,
            cores: self.config.cores,
        }
    }

    /// Batches `from..total_batches` of the whole run, epochs end to end. A resumed run starts at
    /// the first batch that its checkpoint has not seen.
    pub fn run(
        &self,
        from: u64,
        total_batches: u64,
    ) -> impl Iterator<Item = ScheduledBatch> + Send + use<> {
        let sampler = self.clone();
        let per_epoch = self.batches_per_epoch() as u64;
        let mut current: Option<(u64, EpochPlan)> = None;
        (from..total_batches).filter_map(move |batch| {
            let (epoch, batch_in_epoch) = (batch / per_epoch, batch % per_epoch);
            if current.as_ref().is_none_or(|(planned, _)| *planned != epoch) {
                current = Some((epoch, sampler.epoch(epoch)));
            }
            let plan = current.as_ref()?.1.batch(batch_in_epoch as usize)?;
            Some(ScheduledBatch { batch, epoch, batch_in_epoch, plan })
        })
    }

    /// The padded lengths of the first `total_batches` batches, ascending, each once: a program is
    /// compiled for each of them before the first step.
    pub fn shapes(&self, total_batches: u64) -> Vec<u32> {
        let per_epoch = self.batches_per_epoch() as u64;
        let epochs = match self.config.strategy {
            SamplingStrategy::Sequential => total_batches.div_ceil(per_epoch).min(1),
            _ => total_batches.div_ceil(per_epoch),
        };
        let mut shapes = BTreeSet::new();
        for epoch in 0..epochs {
            let batches_left = (total_batches - epoch * per_epoch).min(per_epoch) as usize;
            shapes.extend(&self.epoch(epoch).batch_lengths()[..batches_left]);
        }
        shapes.into_iter().collect()
    }

    /// The rows of an epoch in the order of its batches, without those that it leaves out.
    fn order(&self, epoch: u64) -> Vec<u32> {
        let mut order = order::epoch_order(self, epoch);
        order.truncate(self.batches_per_epoch() * self.config.global_batch());
        order
    }

    /// The tokens of the longest row of each batch.
    fn longest_rows<'a>(&'a self, order: &'a [u32]) -> impl Iterator<Item = u32> + 'a {
        let length = |&row: &u32| self.lengths[row as usize];
        order
            .chunks(self.config.global_batch())
            .map(move |rows| rows.iter().map(length).max().unwrap_or(0))
    }
}

/// Why rows cannot be planned or gathered.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplerError {
    #[error("it has no rows")]
    NoRows,
    #[error("batch size and cores must be at least 1")]
    EmptyBatch,
    #[error("dataloader_drop_last leaves no step: {rows} rows, {global_batch} rows a step")]
    NothingLeft { rows: usize, global_batch: usize },
    #[error("row {row} has {length} tokens, the longest bucket holds {longest}")]
    TooLong { row: usize, length: u32, longest: u32 },
    #[error("{found} values for a core with {rows} rows")]
    TooFewValues { found: usize, rows: usize },
    #[error("row {row} is outside the data set")]
    NoSuchRow { row: usize },
    #[error("row {row} was computed twice")]
    RowTwice { row: usize },
    #[error("row {row} was not computed")]
    NoValue { row: usize },
}
