//! Steps between their launch and the read-back of their results.

use std::collections::VecDeque;

use super::batches::TrainBatch;
use crate::progress::StepCounts;

/// Launched steps, the oldest first, and the step that is being launched.
pub(super) struct StepsInFlight<L> {
    steps_max: usize,
    launched: VecDeque<LaunchedStep<L>>,
    partial: PartialStep<L>,
}

/// A step whose last program was launched.
pub(super) struct LaunchedStep<L> {
    /// Counted from 1.
    pub step: u64,
    /// Programs of its batches that may still run.
    pub batches: VecDeque<L>,
    /// The program that ends it.
    pub last: L,
    pub counts: StepCounts,
    pub learning_rate: f64,
}

/// A step some of whose batches were launched.
struct PartialStep<L> {
    batches: VecDeque<L>,
    counts: StepCounts,
    source_rows: Vec<u32>,
}

impl<L> Default for PartialStep<L> {
    fn default() -> PartialStep<L> {
        PartialStep {
            batches: VecDeque::new(),
            counts: StepCounts::default(),
            source_rows: Vec::new(),
        }
    }
}

impl<L> StepsInFlight<L> {
    pub(super) fn new(steps_max: usize) -> StepsInFlight<L> {
        StepsInFlight { steps_max, launched: VecDeque::new(), partial: PartialStep::default() }
    }

    pub(super) fn len(&self) -> u64 {
        self.launched.len() as u64
    }

    pub(super) fn is_full(&self) -> bool {
        self.launched.len() == self.steps_max
    }

    /// Whether some batches of a step were launched, but not all.
    pub(super) fn has_partial_step(&self) -> bool {
        self.partial.counts.samples > 0
    }

    /// Counts a batch of the partial step.
    pub(super) fn count<B>(&mut self, batch: &TrainBatch<B>) {
        self.partial.counts.add(batch.counts);
        self.partial.source_rows.extend(&batch.source_rows);
    }

    /// Adds the program of a batch. Returns the oldest one where too many may be running.
    pub(super) fn add_batch(&mut self, launched: L) -> Option<L> {
        self.partial.batches.push_back(launched);
        if self.partial.batches.len() < self.steps_max {
            return None;
        }
        self.partial.batches.pop_front()
    }

    /// Ends the partial step with its last program. Returns the rows of the files that it used.
    pub(super) fn end_step(&mut self, step: u64, last: L, learning_rate: f64) -> Vec<u32> {
        let PartialStep { batches, counts, source_rows } = std::mem::take(&mut self.partial);
        self.launched.push_back(LaunchedStep { step, batches, last, counts, learning_rate });
        source_rows
    }

    /// Takes the oldest launched step.
    pub(super) fn pop(&mut self) -> Option<LaunchedStep<L>> {
        self.launched.pop_front()
    }
}
