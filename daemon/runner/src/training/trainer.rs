//! The loop: launches a step while the results of the one before are read back, so that the cores
//! never wait for the host.

use std::time::Instant;

use traind_loader::Prefetched;
use traind_proto::v1::Phase;
use traind_xla::runtime::HandOver;

use super::batches::TrainBatch;
use super::device::{Device, Launched};
use super::in_flight::{LaunchedStep, StepsInFlight};
use super::ledger::Ledger;
use super::loss_scale;
use super::pauses::Pauses;
use super::step_log::StepLog;
use super::updates::{Update, Updates};
use crate::error::{RunError, RunResult};
use crate::hosts::StopAgreement;
use crate::progress::{Progress, Spent, Timetable};
use crate::reporting::{Reporter, StepGates, Stop, StopReason};

pub(crate) struct Trainer<P> {
    pub timetable: Timetable,
    pub updates: Updates,
    pub progress: Progress,
    pub pauses: P,
    pub log: StepLog,
    /// On the first host.
    pub ledger: Option<Ledger>,
    pub reporter: Reporter,
    pub stop: Stop,
    pub agreement: StopAgreement,
    pub gates: StepGates,
}

impl<P> Trainer<P> {
    /// Trains until the batches or the run end.
    pub(crate) fn run<D: Device>(
        &mut self,
        device: &mut D,
        mut batches: impl Iterator<Item = RunResult<Prefetched<TrainBatch<D::Batch>>>>,
    ) -> RunResult<()>
    where
        P: Pauses<D>,
    {
        self.pauses.start(device, &mut self.progress, &mut self.log)?;
        self.progress.start_clock();
        let mut steps = StepsInFlight::new(device.steps_in_flight_max());
        self.wait_at_gate(&mut steps)?;
        while let Some(batch) = self.next_batch(&mut batches, steps.has_partial_step())? {
            let step_ended = self.launch(device, batch, &mut steps)?;
            if steps.is_full() {
                self.read_back(&mut steps)?;
            }
            if step_ended && self.pauses.are_due(self.progress.steps + steps.len()) {
                self.drain(&mut steps)?;
                self.pauses.pause(device, &mut self.progress, &mut self.log)?;
            }
            if step_ended {
                self.wait_at_gate(&mut steps)?;
            }
        }
        self.drain(&mut steps)?;
        if self.progress.stopped == Some(StopReason::Interrupted) {
            self.pauses.save_before_exit(device, &mut self.progress)?;
        }
        self.progress.stop_clock();
        Ok(())
    }

    /// Waits where a test closed the gate after the last step, with no step in flight.
    fn wait_at_gate<L: Launched>(&mut self, steps: &mut StepsInFlight<L>) -> RunResult<()> {
        let launched = self.progress.steps + steps.len();
        if self.gates.is_closed(launched) {
            self.drain(steps)?;
            self.gates.wait(launched, &self.stop);
        }
        Ok(())
    }

    /// Returns `None` after the last batch, and where the run ends before it. A step that has
    /// begun is completed.
    fn next_batch<D: Device>(
        &mut self,
        batches: &mut impl Iterator<Item = RunResult<Prefetched<TrainBatch<D::Batch>>>>,
        in_step: bool,
    ) -> RunResult<Option<Prefetched<TrainBatch<D::Batch>>>>
    where
        P: Pauses<D>,
    {
        if !in_step {
            self.progress.stopped = self.agreement.reason()?;
            if self.progress.stopped.is_some() || self.pauses.stop_early(&self.progress) {
                return Ok(None);
            }
        }
        self.reporter.activity.enter(Phase::Input);
        match batches.next().transpose() {
            // The stop ended a wait for rows, which are those of a new step.
            Err(error) if error.is_abandoned() => {
                self.progress.stopped = self.agreement.reason()?;
                if self.progress.stopped.is_some() { Ok(None) } else { Err(error) }
            }
            next => next,
        }
    }

    /// Launches a batch and, with the last of a step, the update. Returns whether the step ended.
    fn launch<D: Device>(
        &mut self,
        device: &mut D,
        batch: Prefetched<TrainBatch<D::Batch>>,
        steps: &mut StepsInFlight<D::Launched>,
    ) -> RunResult<bool> {
        self.reporter.activity.enter(Phase::Dispatch);
        let Prefetched { batch, waited } = batch;
        let (input_wait, decode) = (waited, batch.decoding);
        self.progress.meter.spend(Spent { input_wait, decode, ..Spent::default() });
        steps.count(&batch);
        let launched = self.launch_timed(device, |device| device.launch_batch(&batch.inputs))?;
        let (last, learning_rate) = match batch.update {
            Some(update) => (launched, update.learning_rate),
            None => {
                if let Some(oldest) = steps.add_batch(launched) {
                    self.wait(&oldest)?;
                }
                if !batch.position.is_last {
                    return Ok(false);
                }
                let update = self.update_of(device, batch.position.step, steps)?;
                let launched =
                    self.launch_timed(device, |device| device.launch_update(&update.scalars))?;
                (launched, update.learning_rate)
            }
        };
        let step = batch.position.step + 1;
        let source_rows = steps.end_step(step, last, learning_rate);
        if let Some(ledger) = &self.ledger {
            ledger.write(step, &source_rows)?;
        }
        Ok(true)
    }

    /// Returns the update of a step. Where updates may be skipped, how many were made before is
    /// known only when all steps before have been read back.
    fn update_of<D: Device>(
        &mut self,
        device: &D,
        step: u64,
        steps: &mut StepsInFlight<D::Launched>,
    ) -> RunResult<Update> {
        if device.skips_updates() {
            self.drain(steps)?;
        }
        let done = step - self.progress.totals.skipped_steps;
        self.updates.after(done, &self.progress.plateau)
    }

    fn drain<L: Launched>(&mut self, steps: &mut StepsInFlight<L>) -> RunResult<()> {
        while steps.len() > 0 {
            self.read_back(steps)?;
        }
        Ok(())
    }

    /// Waits for the oldest step in flight and takes its results.
    fn read_back<L: Launched>(&mut self, steps: &mut StepsInFlight<L>) -> RunResult<()> {
        let Some(LaunchedStep { step, batches, last, counts, learning_rate }) = steps.pop() else {
            return Ok(());
        };
        batches.iter().try_for_each(|batch| self.wait(batch))?;
        self.wait(&last)?;
        let start = Instant::now();
        let results = last.results()?;
        let read_back = start.elapsed();
        self.progress.meter.spend(Spent { read_back, ..Spent::default() });
        let (mut loss, mut metrics) = (results.loss, results.metrics);
        if let Some(result) = results.loss_scale {
            loss_scale::observe(&mut self.progress, &self.reporter.journal, step, result)?;
        }
        if results.loss_scale.is_none_or(|result| result.updated) {
            check_finite(step, loss, results.grad_norm)?;
        } else if !loss.is_finite() {
            // As the Trainer's logging_nan_inf_filter: it counts as the mean of the others.
            let window = self.progress.meter.averages();
            (loss, metrics) = (window.loss, window.metrics);
        }
        self.progress.add(step, loss, &metrics, counts);
        self.reporter.activity.set_step(step, self.timetable.max_steps);
        if self.timetable.logs_after(step) {
            self.log.write_window(&mut self.progress, results.grad_norm, learning_rate)?;
            self.progress.meter.restart();
        }
        Ok(())
    }

    /// Launches a program. Rates exclude the time that it waits to be compiled.
    fn launch_timed<D: Device>(
        &mut self,
        device: &mut D,
        launch: impl FnOnce(&mut D) -> RunResult<D::Launched>,
    ) -> RunResult<D::Launched> {
        let compile_wait = device.compile_wait();
        let launched = launch(device)?;
        self.progress.meter.exclude(device.compile_wait() - compile_wait);
        let HandOver { dispatch, compute } = launched.hand_over();
        self.progress.meter.spend(Spent { dispatch, compute, ..Spent::default() });
        Ok(launched)
    }

    /// Waits for a program, while the cores compute.
    fn wait(&mut self, launched: &impl Launched) -> RunResult<()> {
        self.reporter.activity.enter(Phase::Compute);
        let start = Instant::now();
        let ended = launched.wait();
        self.reporter.activity.program_finished();
        self.progress.meter.spend(Spent { compute: start.elapsed(), ..Spent::default() });
        ended
    }
}

/// A loss that is not finite has already spoiled the weights. The first one follows from the weights alone.
fn check_finite(step: u64, loss: f64, grad_norm: f64) -> RunResult<()> {
    let advice = match step {
        1 if !loss.is_finite() => "check the weights of the model for NaN and infinity",
        _ => "lower learning_rate, raise warmup_steps or lower max_grad_norm",
    };
    for (quantity, value) in [("loss", loss), ("gradient norm", grad_norm)] {
        if !value.is_finite() {
            return Err(RunError::NotFinite { quantity, step, value, advice });
        }
    }
    Ok(())
}
