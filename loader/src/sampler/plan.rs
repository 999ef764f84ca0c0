//! What one step and one epoch train on.

use std::sync::Arc;

/// One step: a global batch, split contiguously over the cores.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepPlan {
    /// The padded length, the same on every core since all run one program.
    pub length: u32,
    /// The rows of the global batch. Fewer than `cores * batch_per_core` only in the last step of
    /// an epoch; the slots left over carry weight 0, so that every row counts exactly once.
    pub rows: Vec<u32>,
    pub batch_per_core: usize,
    pub cores: usize,
}

impl StepPlan {
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

/// A step and its place in the run. All counts start at 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledStep {
    pub step: u64,
    pub epoch: u64,
    pub step_in_epoch: u64,
    pub plan: StepPlan,
}

/// All steps of one epoch.
#[derive(Clone, Debug)]
pub struct EpochPlan {
    pub(super) order: Arc<[u32]>,
    pub(super) step_lengths: Arc<[u32]>,
    pub(super) batch_per_core: usize,
    pub(super) cores: usize,
}

impl EpochPlan {
    /// Steps in this epoch, the same in every epoch.
    pub fn len(&self) -> usize {
        self.step_lengths.len()
    }

    /// True where there is no step, which [`super::Sampler::new`] rules out.
    pub fn is_empty(&self) -> bool {
        self.step_lengths.is_empty()
    }

    /// Step `step` of the epoch; None past its end.
    pub fn step(&self, step: usize) -> Option<StepPlan> {
        let length = *self.step_lengths.get(step)?;
        let global_batch = self.batch_per_core * self.cores;
        let start = step * global_batch;
        let end = (start + global_batch).min(self.order.len());
        let rows = self.order[start..end].to_vec();
        Some(StepPlan { length, rows, batch_per_core: self.batch_per_core, cores: self.cores })
    }

    /// The steps from `first` on: what a resumed epoch still has to do.
    pub fn steps_from(&self, first: usize) -> impl Iterator<Item = StepPlan> + '_ {
        (first..self.len()).filter_map(|step| self.step(step))
    }

    /// All steps.
    pub fn steps(&self) -> impl Iterator<Item = StepPlan> + '_ {
        self.steps_from(0)
    }

    /// The padded length of each step.
    pub fn step_lengths(&self) -> &[u32] {
        &self.step_lengths
    }
}
