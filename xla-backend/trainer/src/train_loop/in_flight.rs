//! Steps between their launch and the read-back of their results.

use std::collections::VecDeque;

/// Launched steps, the oldest first, and the step that is being launched.
pub(super) struct StepsInFlight<L, R> {
    steps_max: usize,
    launched: VecDeque<LaunchedStep<L, R>>,
    partial: PartialStep<L, R>,
}

/// A step whose last program was launched.
pub(super) struct LaunchedStep<L, R> {
    /// The number of the step, counted from 1.
    pub step: u64,
    /// Programs of its batches that may still run.
    pub batches: VecDeque<L>,
    /// The program that ends it.
    pub last: L,
    /// The caller's records of its batches.
    pub records: Vec<R>,
    pub learning_rate: f64,
}

/// A step some of whose batches were launched.
struct PartialStep<L, R> {
    batches: VecDeque<L>,
    records: Vec<R>,
}

impl<L, R> StepsInFlight<L, R> {
    pub(super) fn new(steps_max: usize) -> StepsInFlight<L, R> {
        let partial = PartialStep { batches: VecDeque::new(), records: Vec::new() };
        StepsInFlight { steps_max, launched: VecDeque::new(), partial }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.launched.is_empty()
    }

    pub(super) fn is_full(&self) -> bool {
        self.launched.len() == self.steps_max
    }

    /// Whether some batches of a step were launched, but not all.
    pub(super) fn has_partial_step(&self) -> bool {
        !self.partial.records.is_empty()
    }

    /// Adds the record of a batch to the partial step.
    pub(super) fn add_record(&mut self, record: R) {
        self.partial.records.push(record);
    }

    /// Adds the program of a batch. Returns the oldest one where too many may be running.
    pub(super) fn add_batch(&mut self, launched: L) -> Option<L> {
        self.partial.batches.push_back(launched);
        if self.partial.batches.len() < self.steps_max {
            return None;
        }
        self.partial.batches.pop_front()
    }

    /// Ends the partial step with its last program. Returns the records of its batches.
    pub(super) fn end_step(&mut self, step: u64, last: L, learning_rate: f64) -> &[R] {
        let batches = std::mem::take(&mut self.partial.batches);
        let records = std::mem::take(&mut self.partial.records);
        self.launched.push_back(LaunchedStep { step, batches, last, records, learning_rate });
        self.launched.back().map_or(&[], |step| &step.records)
    }

    /// Takes the oldest launched step.
    pub(super) fn pop(&mut self) -> Option<LaunchedStep<L, R>> {
        self.launched.pop_front()
    }
}
