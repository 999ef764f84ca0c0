//! How long a run is and what happens when: step counts, learning rates,
//! logging and evaluation, all known before the first step.

use traind_job_file::{EvalStrategy, Train};
use traind_models::schedules::Schedule;

use crate::failure::RunResult;

/// The timetable of a run.
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    pub steps_per_epoch: u64,
    pub max_steps: u64,
    pub logging_steps: u64,
    /// Steps between two evaluations; `None` where there are none on the way.
    pub eval_steps: Option<u64>,
    schedule: Schedule,
    warmup_steps: u64,
    learning_rate: f64,
}

impl Timetable {
    pub(crate) fn new(train: &Train, steps_per_epoch: u64) -> RunResult<Timetable> {
        let max_steps = match u64::try_from(train.max_steps) {
            Ok(steps) if steps > 0 => steps,
            _ => (train.num_train_epochs * steps_per_epoch as f64).ceil() as u64,
        };
        let logging_steps = train.logging_steps.resolve(max_steps).max(1);
        let eval_steps = match train.eval_strategy {
            EvalStrategy::No => None,
            EvalStrategy::Epoch => Some(steps_per_epoch),
            EvalStrategy::Steps => Some(
                train.eval_steps.map_or(logging_steps, |steps| steps.resolve(max_steps)).max(1),
            ),
        };
        Ok(Timetable {
            steps_per_epoch,
            max_steps,
            logging_steps,
            eval_steps,
            schedule: Schedule::from_name(&train.lr_scheduler_type.to_string())?,
            warmup_steps: train.warmup_steps.resolve(max_steps),
            learning_rate: train.learning_rate,
        })
    }

    /// The rate of the update that follows `done` updates.
    pub(crate) fn learning_rate(&self, done: u64) -> f64 {
        self.schedule.learning_rate(done, self.max_steps, self.warmup_steps, self.learning_rate)
    }

    /// Epochs done after `done` steps, with the share of the current one.
    pub(crate) fn epoch(&self, done: u64) -> f64 {
        done as f64 / self.steps_per_epoch as f64
    }

    pub(crate) fn logs_after(&self, done: u64) -> bool {
        done.is_multiple_of(self.logging_steps)
    }

    /// Whether an evaluation follows `done` steps. One always follows the last
    /// step where there are validation rows, which the caller sees to.
    pub(crate) fn evaluates_after(&self, done: u64) -> bool {
        self.eval_steps.is_some_and(|steps| done.is_multiple_of(steps))
    }
}
