//! The rows of one batch and of one epoch.

use std::sync::Arc;

use crate::batch::BatchSizes;

/// A global batch, split contiguously over the cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchPlan {
    /// The sizes of each core's arrays.
    pub sizes: BatchSizes,
    /// The rows of the batch: fewer than all cores have slots for only in the last batch of an
    /// epoch, or of a set whose rows make batches of their own. The slots left over carry weight 0, so that every
    /// row counts exactly once.
    pub rows: Vec<u32>,
    /// The cores that share the batch.
    pub cores: usize,
}

impl BatchPlan {
    /// The rows of one core, in slot order; fewer than its slots where some stay empty.
    pub fn rows_of_core(&self, core: usize) -> &[u32] {
        let slots = self.sizes.rows();
        let start = (core * slots).min(self.rows.len());
        let end = (start + slots).min(self.rows.len());
        &self.rows[start..end]
    }

    /// Token positions that the devices compute, padding included.
    pub fn padded_tokens(&self) -> u64 {
        self.cores as u64 * self.sizes.rows() as u64 * self.sizes.tokens_per_row()
    }
}

/// A batch and its position in the run. All counts start at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledBatch {
    /// The number of the batch in the run, from 0.
    pub batch: u64,
    /// The epoch, from 0.
    pub epoch: u64,
    /// The number of the batch in its epoch, from 0.
    pub batch_in_epoch: u64,
    /// The rows of the batch and their sizes.
    pub plan: BatchPlan,
}

/// All batches of one epoch.
#[derive(Clone, Debug)]
pub struct EpochPlan {
    pub(super) order: Arc<[u32]>,
    /// The place in the order at which each batch ends.
    pub(super) ends: Arc<[usize]>,
    /// The sizes of each batch.
    pub(super) sizes: Arc<[BatchSizes]>,
    pub(super) cores: usize,
}

impl EpochPlan {
    /// The number of batches, the same in every epoch.
    pub fn len(&self) -> usize {
        self.sizes.len()
    }

    /// True if there is no batch, which [`super::Sampler::new`] rules out.
    pub fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Batch `batch` of the epoch; None past its end.
    pub fn batch(&self, batch: usize) -> Option<BatchPlan> {
        let sizes = *self.sizes.get(batch)?;
        let start = batch.checked_sub(1).map_or(0, |before| self.ends[before]);
        let rows = self.order[start..self.ends[batch]].to_vec();
        Some(BatchPlan { sizes, rows, cores: self.cores })
    }

    /// All batches, in order.
    pub fn batches(&self) -> impl Iterator<Item = BatchPlan> + '_ {
        (0..self.len()).filter_map(|batch| self.batch(batch))
    }

    /// The sizes of each batch.
    pub fn sizes(&self) -> &[BatchSizes] {
        &self.sizes
    }
}
