//! The conductor of the trainer's loop: the batches of a job, its rates, and what is due between its steps.

use traind_loader::Prefetched;
use traind_proto::v1::Phase;
use traind_trainer::train_loop::{
    self, Conductor, EndedStep, LoopBatch, LoopDevice, LoopPhase, LoopTime, Update,
};

use super::batches::TrainBatch;
use super::ledger::Ledger;
use super::loss_scale;
use super::pauses::Pauses;
use super::step_log::StepLog;
use super::updates::Updates;
use crate::error::{RunError, RunResult};
use crate::hosts::StopAgreement;
use crate::profile::{CoreLimits, HostCores};
use crate::progress::{Progress, Spent, StepCounts, Timetable};
use crate::reporting::{Reporter, StepGates, Stop, StopReason};

pub(crate) struct Trainer<P> {
    pub timetable: Timetable,
    pub updates: Updates,
    pub progress: Progress,
    pub pauses: P,
    pub log: StepLog,
    /// The sample ledger, which the first host writes.
    pub ledger: Option<Ledger>,
    pub reporter: Reporter,
    pub stop: Stop,
    pub agreement: StopAgreement,
    pub gates: StepGates,
    /// The cores whose steps are profiled.
    pub cores: HostCores,
}

/// A run as the loop sees it.
struct Conducted<'a, P, B> {
    trainer: &'a mut Trainer<P>,
    batches: B,
}

/// The counts and the rows of a batch.
struct BatchRecord {
    counts: StepCounts,
    /// The rows of the files.
    source_rows: Vec<u32>,
}

impl<P> Trainer<P> {
    /// Trains until the batches or the run end.
    pub(crate) fn run<D: LoopDevice>(
        &mut self,
        device: &mut D,
        batches: impl Iterator<Item = RunResult<Prefetched<TrainBatch<D::Batch>>>>,
    ) -> RunResult<()>
    where
        P: Pauses<D>,
    {
        self.pauses.start(device, &mut self.progress, &mut self.log)?;
        self.progress.start_clock();
        self.wait_at_gate();
        self.profile();
        let mut conducted = Conducted { trainer: self, batches };
        train_loop::train(device, &mut conducted)?;
        self.reporter.activity.profiler.end(|| self.core_limits());
        if self.progress.stopped == Some(StopReason::Interrupted) {
            self.pauses.save_before_exit(device, &mut self.progress)?;
        }
        self.progress.stop_clock();
        Ok(())
    }

    /// Waits where a test closed the gate after the newest step.
    fn wait_at_gate(&self) {
        if self.gates.is_closed(self.progress.steps) {
            self.gates.wait(self.progress.steps, &self.stop);
        }
    }

    /// Begins or ends a profile where one was requested.
    fn profile(&self) {
        let profiler = &self.reporter.activity.profiler;
        profiler.between_steps(self.progress.steps, || self.core_limits());
    }

    fn core_limits(&self) -> CoreLimits {
        CoreLimits::of(self.cores, self.reporter.activity.status().peak_flops)
    }

    /// Whether the run ends before its last step.
    fn ends_early<D>(&mut self) -> RunResult<bool>
    where
        P: Pauses<D>,
    {
        self.progress.stopped = self.agreement.reason()?;
        Ok(self.progress.stopped.is_some() || self.pauses.stop_early(&self.progress))
    }
}

impl<P, D, B> Conductor<D> for Conducted<'_, P, B>
where
    P: Pauses<D>,
    D: LoopDevice,
    B: Iterator<Item = RunResult<Prefetched<TrainBatch<D::Batch>>>>,
{
    type Record = BatchRecord;
    type Error = RunError;

    /// Returns `None` after the last batch, and where the run ends before it. A step that has
    /// begun is completed.
    fn next_batch(&mut self, in_step: bool) -> RunResult<Option<LoopBatch<D::Batch, BatchRecord>>> {
        let trainer = &mut *self.trainer;
        if !in_step && trainer.ends_early::<D>()? {
            return Ok(None);
        }
        trainer.reporter.activity.enter(Phase::Input);
        let Prefetched { batch, waited } = match self.batches.next().transpose() {
            Ok(Some(next)) => next,
            Ok(None) => return Ok(None),
            // The stop ended a wait for rows, which are those of a new step.
            Err(error) if error.is_abandoned() => {
                trainer.progress.stopped = trainer.agreement.reason()?;
                return if trainer.progress.stopped.is_some() { Ok(None) } else { Err(error) };
            }
            Err(error) => return Err(error),
        };
        let TrainBatch { position, counts, source_rows, decoding, update, inputs } = batch;
        let spent = Spent { input_wait: waited, decode: decoding, ..Spent::default() };
        trainer.progress.meter.spend(spent);
        let record = BatchRecord { counts, source_rows };
        let (step, is_last) = (position.step, position.is_last);
        Ok(Some(LoopBatch { step, is_last, update, inputs, record }))
    }

    fn update(&mut self, step: u64) -> RunResult<Update> {
        let trainer = &*self.trainer;
        let done = step - trainer.progress.totals.skipped_steps;
        trainer.updates.after(done, &trainer.progress.plateau)
    }

    fn step_launched(&mut self, step: u64, batches: &[BatchRecord]) -> RunResult<()> {
        let Some(ledger) = &self.trainer.ledger else { return Ok(()) };
        let rows = batches.iter().flat_map(|batch| &batch.source_rows).copied();
        ledger.write(step, &rows.collect::<Vec<u32>>())
    }

    fn step_ended(&mut self, ended: EndedStep<BatchRecord>) -> RunResult<()> {
        let EndedStep { step, results, learning_rate, batches } = ended;
        let trainer = &mut *self.trainer;
        let progress = &mut trainer.progress;
        let is_skipped = results.is_skipped();
        let (mut loss, mut metrics) = (results.loss, results.metrics);
        if let Some(result) = results.loss_scale {
            loss_scale::observe(progress, &trainer.reporter.journal, step, result)?;
        }
        if !is_skipped {
            check_finite(step, loss, results.grad_norm)?;
        } else if !loss.is_finite() {
            // As the Trainer's logging_nan_inf_filter: it counts as the mean of the others.
            let window = progress.meter.averages();
            (loss, metrics) = (window.loss, window.metrics);
        }
        let mut counts = StepCounts::default();
        batches.iter().for_each(|batch| counts.add(batch.counts));
        progress.add(step, loss, &metrics, counts);
        trainer.reporter.activity.set_step(step, trainer.timetable.max_steps);
        trainer.reporter.activity.profiler.step_ended(step);
        if trainer.timetable.logs_after(step) {
            match trainer.pauses.evaluates_before_logs(step) {
                true => trainer.log.hold(results.grad_norm, learning_rate),
                false => trainer.log.write_window(progress, results.grad_norm, learning_rate)?,
            }
        }
        Ok(())
    }

    fn pauses_after(&self, steps: u64) -> bool {
        let trainer = &self.trainer;
        trainer.pauses.are_due(steps)
            || trainer.gates.is_closed(steps)
            || trainer.reporter.activity.profiler.is_due(steps)
    }

    fn pause(&mut self, device: &mut D) -> RunResult<()> {
        let trainer = &mut *self.trainer;
        if trainer.pauses.are_due(trainer.progress.steps) {
            trainer.pauses.pause(device, &mut trainer.progress, &mut trainer.log)?;
        }
        trainer.wait_at_gate();
        trainer.profile();
        Ok(())
    }

    fn begin(&mut self, phase: LoopPhase) {
        self.trainer.reporter.activity.enter(match phase {
            LoopPhase::Dispatch => Phase::Dispatch,
            LoopPhase::Compute => Phase::Compute,
        });
    }

    fn program_ended(&mut self) {
        self.trainer.reporter.activity.program_finished();
    }

    /// Rates exclude the time that programs wait to be compiled.
    fn spend(&mut self, time: LoopTime) {
        let LoopTime { dispatch, compute, read_back, compile_wait } = time;
        // A launch that has computed was in the phase of launches.
        if !compute.is_zero() {
            self.trainer.reporter.activity.profiler.enter_before(Phase::Compute, compute);
        }
        let meter = &mut self.trainer.progress.meter;
        meter.exclude(compile_wait);
        meter.spend(Spent { dispatch, compute, read_back, ..Spent::default() });
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
