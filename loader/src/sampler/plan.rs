//! The rows of one batch and of one epoch.

use std::sync::Arc;

/// A global batch, split contiguously over the cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// The padded length, the same on every core since all run one program.
    pub length: u32,
    /// The rows of the batch: fewer than `cores * batch_per_core` only in the last batch of an
    /// epoch. The slots left over carry weight 0, so that every row counts exactly once.
    pub rows: Vec<u32>,
    pub batch_per_core: usize,
    pub cores: usize,
}

impl BatchPlan {
    /// The rows of one core, in slot order; shorter than `batch_per_core` where slots stay empty.
    pub fn rows_of_core(&self, core: usize) -> &[u32] {
        let start = (core * self.batch_per_core).min(self.rows.len());
        let end = (start + self.batch_per_core).min(self.rows.len());
        &self.rows[start..end]
    }

    /// Token positions that the devices compute, padding included.
    pub fn padded_tokens(&self) -> u64 {
        self.cores as u64 * self.batch_per_core as u64 * u64::from(self.length)
    }
}

/// A batch and its position in the run. All counts start at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledBatch {
    pub batch: u64,
    pub epoch: u64,
    pub batch_in_epoch: u64,
    pub plan: BatchPlan,
}

/// All batches of one epoch.
#[derive(Clone, Debug)]
pub struct EpochPlan {
    pub(super) order: Arc<[u32]>,
    pub(super) batch_lengths: Arc<[u32]>,
    pub(super) batch_per_core: usize,
    pub(super) cores: usize,
}

impl EpochPlan {
    /// The number of batches, the same in every epoch.
    pub fn len(&self) -> usize {
        self.batch_lengths.len()
    }

    /// True if there is no batch, which [`super::Sampler::new`] rules out.
    pub fn is_empty(&self) -> bool {
        self.batch_lengths.is_empty()
    }

    /// Batch `batch` of the epoch; None past its end.
    pub fn batch(&self, batch: usize) -> Option<BatchPlan> {
        let length = *self.batch_lengths.get(batch)?;
        let global_batch = self.batch_per_core * self.cores;
        let start = batch * global_batch;
        let end = (start + global_batch).min(self.order.len());
        let rows = self.order[start..end].to_vec();
        Some(BatchPlan { length, rows, batch_per_core: self.batch_per_core, cores: self.cores })
    }

    /// All batches, in order.
    pub fn batches(&self) -> impl Iterator<Item = BatchPlan> + '_ {
        (0..self.len()).filter_map(|batch| self.batch(batch))
    }

    /// The padded length of each batch.
    pub fn batch_lengths(&self) -> &[u32] {
        &self.batch_lengths
    }
}
