//! The training loop: one step is handed over while the results of the one
//! before are read back, so that the cores never wait for the host.

use std::collections::VecDeque;
use std::time::Instant;

use serde_json::json;
use traind_job_file::SaveStrategy;
use traind_loader::{Collator, Prefetched, Prefetcher, Sampler};
use traind_proto::sample_ledger::SampleLedger;
use traind_proto::v1::event::Kind;
use traind_proto::v1::{LossScaled, Phase, Step};
use traind_xla::runtime::{Fetched, HandOver, Pending};

use crate::checkpoint::Checkpoints;
use crate::control::{Context, StepGates, StopReason};
use crate::error::{RunError, RunResult};
use crate::evaluation::Evaluator;
use crate::metrics::Metrics;
use crate::output::{LogEntry, TensorBoardWriter, failed};
use crate::progress::{BestRule, FinishedStep, Progress, Spent, Timetable};
use crate::session::{Program, Session, Steps, UploadedBatch};
use crate::step::{GRAD_NORM, LOSS, LOSS_SCALE, UPDATED};

/// A loss scale below it means that gradients are never finite.
const LOSS_SCALE_MIN: f32 = 1e-6;

/// All that the loop needs besides the session.
pub(crate) struct Trainer<'a> {
    pub context: &'a Context,
    pub timetable: Timetable,
    pub sampler: Sampler,
    pub collator: Collator,
    pub evaluator: Option<&'a Evaluator>,
    /// Absent where `report_to` is `none`.
    pub tensorboard: Option<TensorBoardWriter>,
    pub checkpoints: Option<Checkpoints>,
    pub best_rule: Option<BestRule>,
    pub progress: Progress,
    pub open: OpenStep,
    pub ledger: SampleLedger,
    pub gates: StepGates,
}

/// A step of which not all batches have been handed over.
#[derive(Default)]
pub(crate) struct OpenStep {
    batches: VecDeque<Pending>,
    finished: FinishedStep,
    /// Rows of the files.
    rows: Vec<u32>,
}

/// A step that was handed over and not read back.
struct InFlight {
    step: u64,
    /// Those of its batches that may still be running.
    batches: VecDeque<Pending>,
    pending: Pending,
    finished: FinishedStep,
    learning_rate: f64,
}

impl Trainer<'_> {
    pub(crate) fn run(&mut self, session: &mut Session) -> RunResult<()> {
        if self.context.spec.job.train.eval_on_start && self.progress.steps == 0 {
            self.evaluate(session)?;
        }
        self.progress.since = Instant::now();
        self.progress.meter.start_clock();
        let (done, end) = (self.progress.steps, self.timetable.max_steps);
        let (from, to) = (self.timetable.batches_before(done), self.timetable.batches_before(end));
        let upload = session.train_upload(self.timetable.clone());
        let collator = self.collator.clone();
        let mut batches = Prefetcher::spawn(self.sampler.run(from, to), collator, upload)?;
        let mut in_flight = VecDeque::new();
        self.wait_at_gate(&mut in_flight)?;
        while let Some(batch) = self.next_batch(&mut batches)? {
            let is_last = self.hand_over(session, batch, &mut in_flight)?;
            if in_flight.len() == session.steps_in_flight_max() {
                self.read_back(&mut in_flight)?;
            }
            let handed_over = self.progress.steps + in_flight.len() as u64;
            if is_last && self.pauses_after(handed_over) {
                self.drain(&mut in_flight)?;
                self.pause(session)?;
            }
            if is_last {
                self.wait_at_gate(&mut in_flight)?;
            }
        }
        self.drain(&mut in_flight)?;
        if self.progress.stopped == Some(StopReason::Interrupted) {
            self.save_before_leaving(session)?;
        }
        self.progress.totals = self.progress.totals();
        self.progress.since = Instant::now();
        Ok(())
    }

    /// Waits where a test closed the gate after the last step, with no step in flight.
    fn wait_at_gate(&mut self, in_flight: &mut VecDeque<InFlight>) -> RunResult<()> {
        let handed_over = self.progress.steps + in_flight.len() as u64;
        if self.gates.is_closed(handed_over) {
            self.drain(in_flight)?;
            self.gates.wait(handed_over, &self.context.stop);
        }
        Ok(())
    }

    /// `None` after the last batch and when the run is to end before it.
    fn next_batch(
        &mut self,
        batches: &mut Prefetcher<UploadedBatch, RunError>,
    ) -> RunResult<Option<Prefetched<UploadedBatch>>> {
        // A step that has begun is ended.
        if self.open.finished.samples == 0 {
            self.progress.stopped = self.context.stop.reason();
            if self.progress.stopped.is_some() || self.stops_early() {
                return Ok(None);
            }
        }
        self.context.activity.enter(Phase::Input);
        Ok(batches.next().transpose()?)
    }

    /// Whether evaluations have not become better for long enough.
    fn stops_early(&self) -> bool {
        self.best_rule.as_ref().is_some_and(|rule| rule.is_over(&self.progress.best))
    }

    fn pauses_after(&self, done: u64) -> bool {
        self.evaluates_after(done) || self.saves_after(done)
    }

    fn evaluates_after(&self, done: u64) -> bool {
        self.evaluator.is_some() && self.timetable.evaluates_after(done)
    }

    fn saves_after(&self, done: u64) -> bool {
        self.checkpoints.is_some() && self.timetable.saves_after(done)
    }

    /// What is due after the steps done so far, all of which were read back:
    /// first an evaluation, then a checkpoint, which tells of it.
    fn pause(&mut self, session: &mut Session) -> RunResult<()> {
        let steps = self.progress.steps;
        let mut is_best = false;
        if self.evaluates_after(steps) {
            let start = Instant::now();
            let metrics = self.evaluate(session)?;
            self.progress.meter.exclude(start.elapsed());
            if let Some(rule) = &self.best_rule {
                is_best = rule.observe(&mut self.progress.best, steps, &metrics)?;
            }
        }
        let best_only = self.context.spec.job.train.save_strategy == SaveStrategy::Best;
        if self.saves_after(steps) || (is_best && best_only) {
            self.save(session)?;
        }
        Ok(())
    }

    fn save(&mut self, session: &Session) -> RunResult<()> {
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        if self.progress.best.step == Some(self.progress.steps) {
            self.progress.best.checkpoint = self.progress.best.step;
        }
        let stall = checkpoints.save(self.context, session, &self.timetable, &self.progress)?;
        self.progress.meter.exclude(stall);
        Ok(())
    }

    /// The job goes on later, and from here.
    fn save_before_leaving(&mut self, session: &Session) -> RunResult<()> {
        let steps = self.progress.steps;
        let saved = self.checkpoints.as_ref().is_none_or(|checkpoints| checkpoints.has(steps));
        if steps == 0 || saved { Ok(()) } else { self.save(session) }
    }

    /// Hands a batch over, and with the last of a step the update; true then.
    fn hand_over(
        &mut self,
        session: &mut Session,
        batch: Prefetched<UploadedBatch>,
        in_flight: &mut VecDeque<InFlight>,
    ) -> RunResult<bool> {
        self.context.activity.enter(Phase::Dispatch);
        let Prefetched { batch, waited: input_wait } = batch;
        self.progress.meter.spend(Spent { input_wait, ..Spent::default() });
        let place = self.timetable.place(batch.host.scheduled.batch);
        self.open.finished.samples += batch.host.scheduled.plan.rows.len() as u64;
        self.open.finished.tokens += batch.host.tokens;
        self.open.finished.flos += session.trainer_flos(&batch.host);
        let source = |row: &u32| self.collator.set().source_row(*row as usize) as u32;
        self.open.rows.extend(batch.host.scheduled.plan.rows.iter().map(source));
        let number = match session.steps() {
            Steps::OneProgram => place.step,
            Steps::Accumulated => {
                self.accumulate(session, &batch)?;
                if !place.is_last {
                    return Ok(false);
                }
                self.updates_before(session, place.step, in_flight)?
            }
        };
        let learning_rate = self.timetable.learning_rate(number);
        let pending = match session.steps() {
            Steps::OneProgram => session.run(self.context, Program::Train, &batch)?,
            Steps::Accumulated => session.update(self.context, number + 1, learning_rate)?,
        };
        self.spend_hand_over(&pending);
        let OpenStep { batches, finished, rows } = std::mem::take(&mut self.open);
        let step = place.step + 1;
        let run_dir = &self.context.run_dir;
        self.ledger.write(step, &rows).map_err(failed("write the sample ledger in", run_dir))?;
        in_flight.push_back(InFlight { step, batches, pending, finished, learning_rate });
        Ok(true)
    }

    /// Hands over a batch of a step of several.
    fn accumulate(&mut self, session: &mut Session, batch: &UploadedBatch) -> RunResult<()> {
        let pending = session.run(self.context, Program::Accumulate, batch)?;
        self.spend_hand_over(&pending);
        self.open.batches.push_back(pending);
        if self.open.batches.len() == session.steps_in_flight_max()
            && let Some(oldest) = self.open.batches.pop_front()
        {
            self.wait(&oldest)?;
        }
        Ok(())
    }

    /// Updates of the weights before a step: with `fp16` fewer than steps, and
    /// known only when the step before has been read back.
    fn updates_before(
        &mut self,
        session: &Session,
        step: u64,
        in_flight: &mut VecDeque<InFlight>,
    ) -> RunResult<u64> {
        if session.state.loss_scale.is_some() {
            self.drain(in_flight)?;
        }
        Ok(step - self.progress.totals.skipped_steps)
    }

    fn spend_hand_over(&mut self, pending: &Pending) {
        let HandOver { dispatch, compute } = pending.hand_over();
        self.progress.meter.spend(Spent { dispatch, compute, ..Spent::default() });
    }

    /// Waits for a program, in which time the cores compute.
    fn wait(&mut self, pending: &Pending) -> RunResult<()> {
        self.context.activity.enter(Phase::Compute);
        let start = Instant::now();
        let waited = pending.wait();
        self.context.activity.completed();
        self.progress.meter.spend(Spent { compute: start.elapsed(), ..Spent::default() });
        Ok(waited?)
    }

    fn drain(&mut self, in_flight: &mut VecDeque<InFlight>) -> RunResult<()> {
        while !in_flight.is_empty() {
            self.read_back(in_flight)?;
        }
        Ok(())
    }

    /// Waits for the oldest step in flight and takes its results.
    fn read_back(&mut self, in_flight: &mut VecDeque<InFlight>) -> RunResult<()> {
        let Some(oldest) = in_flight.pop_front() else { return Ok(()) };
        let InFlight { step, batches, pending, mut finished, learning_rate } = oldest;
        batches.iter().try_for_each(|batch| self.wait(batch))?;
        self.wait(&pending)?;
        let start = Instant::now();
        let fetched = pending.fetch()?;
        finished.loss = f64::from(fetched.scalar_f32(LOSS)?);
        let grad_norm = f64::from(fetched.scalar_f32(GRAD_NORM)?);
        let read_back = start.elapsed();
        self.progress.meter.spend(Spent { read_back, ..Spent::default() });
        if self.observe_scale(step, &fetched)? {
            check_finite(step, finished.loss, grad_norm)?;
        } else if !finished.loss.is_finite() {
            // As the Trainer's logging_nan_inf_filter: it counts as the mean of the others.
            finished.loss = self.progress.meter.figures().loss;
        }
        self.step_done(step, finished, grad_norm, learning_rate)
    }

    /// Takes in what became of the loss scale; false for a step that was skipped.
    fn observe_scale(&mut self, step: u64, fetched: &Fetched) -> RunResult<bool> {
        let Ok(scale) = fetched.scalar_f32(LOSS_SCALE) else { return Ok(true) };
        let updated = fetched.scalar_f32(UPDATED)? != 0.0;
        let totals = &mut self.progress.totals;
        totals.skipped_steps += u64::from(!updated);
        if updated && self.progress.loss_scale == Some(scale) {
            return Ok(true);
        }
        let first = self.progress.loss_scale.replace(scale).is_none();
        if !(first && updated) {
            self.context.journal.record(Kind::LossScaled(LossScaled {
                step,
                scale: f64::from(scale),
                skipped_steps: self.progress.totals.skipped_steps,
            }))?;
        }
        if scale < LOSS_SCALE_MIN {
            let advice =
                "no loss scale makes the gradients finite; lower learning_rate or use bf16";
            let value = f64::from(scale);
            return Err(RunError::NotFinite { what: "loss scale", step, value, advice });
        }
        Ok(updated)
    }

    fn step_done(
        &mut self,
        step: u64,
        finished: FinishedStep,
        grad_norm: f64,
        learning_rate: f64,
    ) -> RunResult<()> {
        self.progress.add(step, finished);
        self.context.activity.step_done(step, self.timetable.max_steps);
        if self.timetable.logs_after(step) {
            self.log(step, grad_norm, learning_rate)?;
            self.progress.meter.restart();
        }
        Ok(())
    }

    fn log(&mut self, step: u64, grad_norm: f64, learning_rate: f64) -> RunResult<()> {
        let window = self.progress.meter.figures();
        let epoch = self.timetable.epoch(step);
        let event = Step {
            step,
            max_steps: self.timetable.max_steps,
            epoch,
            loss: window.loss,
            learning_rate,
            grad_norm,
            samples_per_second: window.samples_per_second,
            tokens_per_second: window.tokens_per_second,
            input_wait_share: window.input_wait_share,
            time: Some(window.time),
            eta_seconds: (self.timetable.max_steps - step) as f64 * window.seconds_per_step,
        };
        self.progress.log_history.push(LogEntry::from([
            ("loss".to_owned(), json!(window.loss)),
            ("grad_norm".to_owned(), json!(grad_norm)),
            ("learning_rate".to_owned(), json!(learning_rate)),
            ("epoch".to_owned(), json!(epoch)),
            ("step".to_owned(), json!(step)),
        ]));
        self.scalars(
            step,
            "train",
            [
                ("loss", window.loss),
                ("grad_norm", grad_norm),
                ("learning_rate", learning_rate),
                ("epoch", epoch),
                ("samples_per_second", window.samples_per_second),
                ("tokens_per_second", window.tokens_per_second),
            ],
        )?;
        Ok(self.context.journal.record(Kind::Step(event))?)
    }

    /// Evaluates after the steps done so far.
    pub(crate) fn evaluate(&mut self, session: &mut Session) -> RunResult<Metrics> {
        let Some(evaluator) = self.evaluator else { return Ok(Metrics::new()) };
        let (step, epoch) = (self.progress.steps, self.timetable.epoch(self.progress.steps));
        let evaluation = evaluator.run(self.context, session, "eval", step, epoch)?;
        let metrics = evaluation.metrics.clone();
        self.progress.evaluation = Some((step, evaluation));
        if !self.has_logged_evaluation(step) {
            self.log_metrics(step, epoch, &metrics)?;
        }
        Ok(metrics)
    }

    /// An attempt that ends where it went on evaluates again, for the logits.
    fn has_logged_evaluation(&self, step: u64) -> bool {
        let mut entries = self.progress.log_history.iter().rev();
        entries.any(|entry| entry.contains_key("eval_loss") && entry["step"] == json!(step))
    }

    fn log_metrics(&mut self, step: u64, epoch: f64, metrics: &Metrics) -> RunResult<()> {
        let mut entry: LogEntry =
            metrics.iter().map(|(name, value)| (name.clone(), json!(value))).collect();
        entry.insert("epoch".to_owned(), json!(epoch));
        entry.insert("step".to_owned(), json!(step));
        self.progress.log_history.push(entry);
        let named = metrics.iter().map(|(name, value)| (name.trim_start_matches("eval_"), *value));
        self.scalars(step, "eval", named)
    }

    fn scalars<'a>(
        &mut self,
        step: u64,
        group: &str,
        values: impl IntoIterator<Item = (&'a str, f64)>,
    ) -> RunResult<()> {
        let tag = |(name, value)| (format!("{group}/{name}"), value);
        let tagged: Vec<(String, f64)> = values.into_iter().map(tag).collect();
        self.tensorboard.as_mut().map_or(Ok(()), |writer| writer.scalars(step, &tagged))
    }
}

/// A loss that is not a number has already spoiled the weights.
fn check_finite(step: u64, loss: f64, grad_norm: f64) -> RunResult<()> {
    let advice = "lower learning_rate, raise warmup_steps or lower max_grad_norm";
    for (what, value) in [("loss", loss), ("gradient norm", grad_norm)] {
        if !value.is_finite() {
            return Err(RunError::NotFinite { what, step, value, advice });
        }
    }
    Ok(())
}
