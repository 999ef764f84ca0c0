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
    /// The place that the cores have reached.
    reached: Place,
    /// The row numbers of the batch that is being launched.
    launching: usize,
    results: Vec<StepResults>,
    /// The steps whose update was skipped.
    skipped: u64,
}

impl Trainer {
    /// Trains a step on the batches of each item, and begins with the first one's where a step has begun. `rate` is
    /// asked for the learning rate by the number of steps before. Returns the results of each step.
    ///
    /// Fails at a step without batches, which would have nothing to update by, and at what [`Trainer::add_batch`] and
    /// [`Trainer::update`] refuse. Training then continues behind the last batch that was added.
    ///
    /// The cores compute while the host uploads the next batch, unlike with calls of [`Trainer::add_batch`].
    pub fn train(
        &mut self,
        steps: impl IntoIterator<Item = Vec<Vec<BatchArray>>>,
        rate: impl FnMut(u64) -> f64,
    ) -> Result<Vec<StepResults>> {
        let mut run = Steps {
            inputs: &self.inputs,
            steps: steps.into_iter(),
            rate,
            batches: VecDeque::new(),
            next: self.place,
            reached: self.place,
            launching: 0,
            results: Vec::new(),
            skipped: self.place.skipped,
        };
        let ended = train_loop::train(&mut self.session, &mut run);
        self.place = Place { skipped: run.skipped, ..run.reached };
        ended.map(|()| run.results)
    }
}

impl<S, R> Steps<'_, S, R> {
    /// Counts the batch before, whose gradients are in the sums by now.
    fn batch_launched(&mut self) {
        self.reached.rows += std::mem::take(&mut self.launching);
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
        self.batch_launched();
        while self.batches.is_empty() {
            let Some(step) = self.steps.next() else { return Ok(None) };
            if step.is_empty() {
                return Err(Error::NoBatch);
            }
            self.batches = step.into();
        }
        let Some(arrays) = self.batches.pop_front() else { return Ok(None) };
        let (step, is_last) = (self.next.steps, self.batches.is_empty());
        let inputs = self.inputs.upload(&arrays, self.next)?;
        self.launching = self.inputs.row_numbers(&inputs);
        self.next.rows += self.launching;
        if is_last {
            self.next = Place { steps: step + 1, rows: 0, ..self.next };
        }
        Ok(Some(LoopBatch { step, is_last, update: None, inputs, record: () }))
    }

    fn update(&mut self, step: u64) -> Result<Update> {
        self.batch_launched();
        let optimizers = &self.inputs.optimizers;
        update_of(optimizers, step - self.skipped, &optimizers.rates((self.rate)(step), 1.0))
    }

    fn step_launched(&mut self, step: u64, _batches: &[()]) -> Result<()> {
        self.reached = Place { steps: step, rows: 0, ..self.reached };
        Ok(())
    }

    fn step_ended(&mut self, step: EndedStep<()>) -> Result<()> {
        self.skipped += u64::from(step.results.is_skipped());
        self.results.push(step.results);
        Ok(())
    }
}
