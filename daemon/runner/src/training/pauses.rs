//! The interruptions of training between two steps: evaluations and checkpoints.

use std::time::Instant;

use traind_job_file::SaveStrategy;

use super::step_log::StepLog;
use crate::checkpoint::Checkpoints;
use crate::error::RunResult;
use crate::evaluation::Evaluator;
use crate::metrics::Metrics;
use crate::progress::{BestRule, PlateauRule, Progress, Timetable};
use crate::session::Session;

/// Work between two steps, on a device of type `D`.
pub(crate) trait Pauses<D> {
    /// Does what is due before the first step of this attempt.
    fn start(
        &mut self,
        device: &mut D,
        progress: &mut Progress,
        log: &mut StepLog,
    ) -> RunResult<()>;

    /// Whether there is something to do after `done` steps.
    fn are_due(&self, done: u64) -> bool;

    /// Whether what is due after `done` steps, among it the newest step's log, begins with an evaluation.
    fn evaluates_before_logs(&self, _done: u64) -> bool {
        false
    }

    /// Does what is due after the newest step, when no step is in flight.
    fn pause(
        &mut self,
        device: &mut D,
        progress: &mut Progress,
        log: &mut StepLog,
    ) -> RunResult<()>;

    /// Whether early stopping applies.
    fn stop_early(&self, progress: &Progress) -> bool;

    /// Saves what a later attempt resumes from, unless that is done.
    fn save_before_exit(&mut self, device: &mut D, progress: &mut Progress) -> RunResult<()>;
}

/// The evaluations and checkpoints of a job.
pub(crate) struct EvaluationsAndCheckpoints<'a> {
    pub timetable: Timetable,
    pub evaluator: Option<&'a Evaluator>,
    pub checkpoints: Option<Checkpoints>,
    pub best_rule: Option<BestRule>,
    pub plateau_rule: Option<PlateauRule>,
    pub save_strategy: SaveStrategy,
    pub save_only_model: bool,
    pub eval_on_start: bool,
}

impl EvaluationsAndCheckpoints<'_> {
    /// Evaluates after the newest step. The cores keep the evaluated weights.
    pub(crate) fn evaluate(
        &self,
        session: &mut Session,
        progress: &mut Progress,
        log: &mut StepLog,
    ) -> RunResult<Metrics> {
        let Some(evaluator) = self.evaluator else { return Ok(Metrics::new()) };
        let (step, epoch) = (progress.steps, self.timetable.epoch(progress.steps));
        session.begin_evaluation()?;
        let evaluation = evaluator.run(session, "eval", step, epoch)?;
        let metrics = evaluation.metrics.clone();
        progress.evaluation = Some((step, evaluation));
        log.write_evaluation(progress, &metrics)?;
        Ok(metrics)
    }

    fn evaluation_is_due(&self, done: u64) -> bool {
        self.evaluator.is_some() && self.timetable.evaluates_after(done)
    }

    fn checkpoint_is_due(&self, done: u64) -> bool {
        self.checkpoints.is_some() && self.timetable.saves_after(done)
    }

    /// `resumes` includes the state that a run resumes from.
    fn save(&mut self, resumes: bool, session: &Session, progress: &mut Progress) -> RunResult<()> {
        let Some(checkpoints) = &mut self.checkpoints else { return Ok(()) };
        if progress.best.step == Some(progress.steps) {
            progress.best.checkpoint = progress.best.step;
        }
        let stall = checkpoints.save(resumes, session, &self.timetable, progress)?;
        progress.meter.exclude(stall);
        Ok(())
    }
}

impl Pauses<Session> for EvaluationsAndCheckpoints<'_> {
    fn start(
        &mut self,
        session: &mut Session,
        progress: &mut Progress,
        log: &mut StepLog,
    ) -> RunResult<()> {
        if self.eval_on_start && progress.steps == 0 {
            self.evaluate(session, progress, log)?;
            session.end_evaluation()?;
        }
        Ok(())
    }

    fn are_due(&self, done: u64) -> bool {
        self.evaluation_is_due(done) || self.checkpoint_is_due(done)
    }

    /// The Trainer evaluates after a number of steps before it logs an epoch.
    fn evaluates_before_logs(&self, done: u64) -> bool {
        self.evaluation_is_due(done) && self.timetable.logs_behind_evaluations(done)
    }

    /// Evaluates first: the checkpoint includes the result.
    fn pause(
        &mut self,
        session: &mut Session,
        progress: &mut Progress,
        log: &mut StepLog,
    ) -> RunResult<()> {
        let steps = progress.steps;
        let mut is_best = false;
        if self.evaluation_is_due(steps) {
            let start = Instant::now();
            let metrics = self.evaluate(session, progress, log)?;
            session.end_evaluation()?;
            progress.meter.exclude(start.elapsed());
            if let Some(rule) = &self.plateau_rule {
                rule.observe(&mut progress.plateau, &metrics)?;
            }
            if let Some(rule) = &self.best_rule {
                is_best = rule.observe(&mut progress.best, steps, &metrics)?;
            }
        }
        log.write_held(progress)?;
        if self.checkpoint_is_due(steps) || (is_best && self.save_strategy == SaveStrategy::Best) {
            self.save(!self.save_only_model, session, progress)?;
        }
        Ok(())
    }

    fn stop_early(&self, progress: &Progress) -> bool {
        self.best_rule.as_ref().is_some_and(|rule| rule.stops_early(&progress.best))
    }

    fn save_before_exit(
        &mut self,
        session: &mut Session,
        progress: &mut Progress,
    ) -> RunResult<()> {
        let steps = progress.steps;
        let is_saved = self.checkpoints.as_ref().is_none_or(|it| it.resumes_at(steps));
        if steps == 0 || is_saved { Ok(()) } else { self.save(true, session, progress) }
    }
}
