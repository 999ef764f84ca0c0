//! Many steps in the training loop, which uploads the next batch while the cores compute.

use std::collections::VecDeque;

use traind_loader::BatchArray;

use super::{Inputs, Place, Trainer, update_of};
use crate::error::{Error, Result};
use crate::session::{Session, StepResults, UploadedBatch};
use crate::train_loop::{self, Conductor, EndedStep, LoopBatch, Update};

/// Steps whose batches are in memory.
struct Steps<'a, S, R> {
    inputs: &'a Inputs,
    steps: S,
    rate: R,
    /// The batches left of the step that is being launched.
    batches: VecDeque<Vec<BatchArray>>,
    /// The place of the next batch.
    next: Place,
    results: Vec<StepResults>,
    /// The steps whose update was skipped.
    skipped: u64,
}

impl Trainer {
    /// Trains a step on the batches of each item, and begins with the first one's where a step has begun. `rate` is
    /// asked for the learning rate by the number of steps before. Returns the results of each step.
    ///
    /// The cores compute while the host uploads the next batch, unlike with calls of [`Trainer::add_batch`].
    pub fn train(
        &mut self,
        steps: impl IntoIterator<Item = Vec<Vec<BatchArray>>>,
        rate: impl FnMut(u64) -> f64,
    ) -> Result<Vec<StepResults>> {
        let (skipped, next) = (self.place.skipped, self.place);
        let (batches, results) = (VecDeque::new(), Vec::new());
        let steps = steps.into_iter();
        let mut run = Steps { inputs: &self.inputs, steps, rate, batches, next, results, skipped };
        let ended = train_loop::train(&mut self.session, &mut run);
        self.place = Place { skipped: run.skipped, ..run.next };
        ended.map(|()| run.results)
    }
}

impl<S, R> Conductor<Session> for Steps<'_, S, R>
where
    S: Iterator<Item = Vec<Vec<BatchArray>>>,
    R: FnMut(u64) -> f64,
{
    type Record = ();
    type Error = Error;

    fn next_batch(&mut self, _in_step: bool) -> Result<Option<LoopBatch<UploadedBatch, ()>>> {
        while self.batches.is_empty() {
            let Some(step) = self.steps.next() else { return Ok(None) };
            self.batches = step.into();
        }
        let Some(arrays) = self.batches.pop_front() else { return Ok(None) };
        let (step, is_last) = (self.next.steps, self.batches.is_empty());
        let inputs = self.inputs.upload(&arrays, self.next)?;
        self.next.rows += inputs.rows();
        if is_last {
            self.next = Place { steps: step + 1, rows: 0, ..self.next };
        }
        Ok(Some(LoopBatch { step, is_last, update: None, inputs, record: () }))
    }

    fn update(&mut self, step: u64) -> Result<Update> {
        let optimizers = &self.inputs.optimizers;
        update_of(optimizers, step - self.skipped, &optimizers.rates((self.rate)(step), 1.0))
    }

    fn step_ended(&mut self, step: EndedStep<()>) -> Result<()> {
        self.skipped += u64::from(step.results.is_skipped());
        self.results.push(step.results);
        Ok(())
    }
}
