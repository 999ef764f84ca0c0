//! The timetable of a run: step counts, learning rates, logging, evaluations and checkpoints, all
//! known before the first step.
//!
//! A step is one update. It takes `gradient_accumulation_steps` batches, or fewer at the end of an
//! epoch, since no step continues into the next epoch.

use traind_job_file::{
    EvalStrategy, LoggingStrategy, LrSchedulerType, SaveStrategy, StepsOrRatio, Train,
};
use traind_models::lr_schedules::LrSchedule;

use super::Plateau;
use crate::error::RunResult;

#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    pub steps_per_epoch: u64,
    pub max_steps: u64,
    /// The number of epochs that start.
    pub num_train_epochs: u64,
    pub logging_steps: u64,
    /// Steps between two evaluations; `None` where there are none during training.
    pub eval_steps: Option<u64>,
    /// Steps between two checkpoints; `None` where they do not depend on a count.
    pub save_steps: Option<u64>,
    saves_epochs: bool,
    logging_strategy: LoggingStrategy,
    logging_first_step: bool,
    eval_strategy: EvalStrategy,
    eval_delay: f64,
    batches_per_epoch: u64,
    batches_per_step: u64,
    /// Steps by which the rows of a step lie behind its number, with `ignore_data_skip`.
    data_lag: u64,
    lr_schedule: LrSchedule,
    warmup_steps: u64,
    learning_rate: f64,
    follows_evaluations: bool,
}

impl Timetable {
    pub(crate) fn new(train: &Train, batches_per_epoch: u64) -> RunResult<Timetable> {
        let batches_per_step = u64::from(train.gradient_accumulation_steps).max(1);
        let steps_per_epoch = batches_per_epoch.div_ceil(batches_per_step);
        let max_steps = match u64::try_from(train.max_steps) {
            _ if !train.do_train => 0,
            Ok(steps) if steps > 0 => steps,
            _ => (train.num_train_epochs * steps_per_epoch as f64).ceil() as u64,
        };
        let steps = |interval: StepsOrRatio| interval.resolve(max_steps).max(1);
        let logging_steps = steps(train.logging_steps);
        let eval_steps = match train.eval_strategy {
            EvalStrategy::No => None,
            EvalStrategy::Epoch => Some(steps_per_epoch),
            EvalStrategy::Steps => Some(train.eval_steps.map_or(logging_steps, steps)),
        };
        let save_steps = match train.save_strategy {
            SaveStrategy::No | SaveStrategy::Best => None,
            SaveStrategy::Epoch => Some(steps_per_epoch),
            SaveStrategy::Steps => Some(steps(train.save_steps)),
        };
        Ok(Timetable {
            steps_per_epoch,
            max_steps,
            num_train_epochs: match train.max_steps > 0 {
                true => max_steps.div_ceil(steps_per_epoch.max(1)),
                false => train.num_train_epochs.ceil() as u64,
            },
            logging_steps,
            eval_steps,
            save_steps,
            saves_epochs: train.save_strategy == SaveStrategy::Epoch,
            logging_strategy: train.logging_strategy,
            logging_first_step: train.logging_first_step,
            eval_strategy: train.eval_strategy,
            eval_delay: train.eval_delay,
            batches_per_epoch,
            batches_per_step,
            data_lag: 0,
            lr_schedule: lr_schedule(train)?,
            warmup_steps: train.warmup_steps.resolve(max_steps),
            learning_rate: train.learning_rate,
            follows_evaluations: train.lr_scheduler_type.follows_evaluations(),
        })
    }

    /// The learning rate of the update that follows `done` updates. Only `reduce_lr_on_plateau` depends
    /// on evaluations.
    pub(crate) fn learning_rate(&self, done: u64, plateau: &Plateau) -> f64 {
        if self.follows_evaluations {
            return plateau.lowered(self.learning_rate);
        }
        self.lr_schedule.learning_rate(done, self.max_steps, self.warmup_steps, self.learning_rate)
    }

    /// The share of the learning rate that an optimizer uses which warms up itself, in the update that follows
    /// `done` updates.
    pub(crate) fn warmup_share(&self, done: u64) -> f64 {
        match done < self.warmup_steps {
            true => (done + 1) as f64 / self.warmup_steps as f64,
            false => 1.0,
        }
    }

    /// The timetable of a run whose steps use the rows of the step that is `steps` steps before.
    pub(crate) fn with_data_lag(self, steps: u64) -> Timetable {
        Timetable { data_lag: steps, ..self }
    }

    pub(crate) fn data_lag(&self) -> u64 {
        self.data_lag
    }

    /// The epochs completed after `done` steps, with a fraction of batches as in the Trainer.
    pub(crate) fn epoch(&self, done: u64) -> f64 {
        let (epoch, steps) = self.epoch_and_steps(done);
        epoch as f64 + (steps * self.batches_per_step) as f64 / self.batches_per_epoch as f64
    }

    /// The number of batches in the first `done` steps.
    pub(crate) fn batches_before(&self, done: u64) -> u64 {
        let (epoch, steps) = self.epoch_and_steps(done);
        epoch * self.batches_per_epoch + steps * self.batches_per_step
    }

    /// The whole epochs that `done` steps have seen, and the steps of the next.
    fn epoch_and_steps(&self, done: u64) -> (u64, u64) {
        let seen = done.saturating_sub(self.data_lag);
        (seen / self.steps_per_epoch, seen % self.steps_per_epoch)
    }

    /// The position of a batch of the run, which counts from 0.
    pub(crate) fn position(&self, batch: u64) -> BatchPosition {
        let (epoch, in_epoch) = (batch / self.batches_per_epoch, batch % self.batches_per_epoch);
        let in_step = in_epoch % self.batches_per_step;
        BatchPosition {
            step: epoch * self.steps_per_epoch + in_epoch / self.batches_per_step + self.data_lag,
            batch_in_step: in_step,
            is_last: in_step + 1 == self.batches_per_step || in_epoch + 1 == self.batches_per_epoch,
        }
    }

    /// `eval_steps` of `trainer_state.json`. The Trainer writes its default where the strategy counts
    /// no steps.
    pub(crate) fn trainer_eval_steps(&self, train: &Train) -> u64 {
        const DEFAULT: u64 = 500;
        match (train.eval_steps, train.eval_strategy) {
            (Some(steps), _) => steps.resolve(self.max_steps),
            (None, EvalStrategy::Steps) => self.logging_steps,
            (None, _) => DEFAULT,
        }
    }

    /// Whether step `done` is logged. With the strategy `epoch` the last step is, as in the Trainer.
    pub(crate) fn logs_after(&self, done: u64) -> bool {
        let is_due = match self.logging_strategy {
            LoggingStrategy::No => false,
            LoggingStrategy::Steps => done.is_multiple_of(self.logging_steps),
            LoggingStrategy::Epoch => self.is_due(Some(self.steps_per_epoch), true, done),
        };
        is_due || (self.logging_first_step && done == 1)
    }

    /// Whether an evaluation after `done` steps precedes their log: the Trainer evaluates by steps before it logs
    /// epochs, and logs the first step as a step.
    pub(crate) fn logs_behind_evaluations(&self, done: u64) -> bool {
        self.logging_strategy == LoggingStrategy::Epoch
            && self.eval_strategy == EvalStrategy::Steps
            && !(self.logging_first_step && done == 1)
    }

    /// Whether an evaluation follows `done` steps. One follows the last step, as in the Trainer.
    pub(crate) fn evaluates_after(&self, done: u64) -> bool {
        let passed = match self.eval_strategy {
            EvalStrategy::Epoch => self.epoch(done),
            EvalStrategy::No | EvalStrategy::Steps => done as f64,
        };
        self.eval_delay <= passed && self.is_due(self.eval_steps, self.evaluates_epochs(), done)
    }

    /// The steps before the first evaluation that follows `done` steps or more of them, or that follows
    /// the last step.
    pub(crate) fn next_evaluation(&self, done: u64) -> u64 {
        let Some(interval) = self.eval_steps else { return self.max_steps };
        let lag = if self.evaluates_epochs() { self.data_lag } else { 0 };
        let first = done.saturating_sub(lag).next_multiple_of(interval) + lag;
        let mut due = (first..self.max_steps).step_by(interval as usize);
        due.find(|steps| self.evaluates_after(*steps)).unwrap_or(self.max_steps)
    }

    /// Whether a checkpoint follows `done` steps. One follows the last step, as in the Trainer.
    pub(crate) fn saves_after(&self, done: u64) -> bool {
        self.is_due(self.save_steps, self.saves_epochs, done)
    }

    fn evaluates_epochs(&self) -> bool {
        self.eval_strategy == EvalStrategy::Epoch
    }

    /// Whether something that happens at an interval of steps, or of epochs, follows `done` steps.
    fn is_due(&self, interval: Option<u64>, by_epoch: bool, done: u64) -> bool {
        let counted = if by_epoch { done.saturating_sub(self.data_lag) } else { done };
        interval.is_some_and(|steps| counted.is_multiple_of(steps) || done == self.max_steps)
    }

    /// The largest number of checkpoints after step `done`.
    pub(crate) fn saves_left(&self, done: u64) -> u64 {
        // Without an interval each evaluation may be the best so far and be saved.
        match self.save_steps.or(self.eval_steps) {
            Some(interval) if done < self.max_steps => {
                self.max_steps.div_ceil(interval).saturating_sub(done / interval)
            }
            _ => 0,
        }
    }
}

fn lr_schedule(train: &Train) -> RunResult<LrSchedule> {
    // Its rates are computed from evaluations.
    if train.lr_scheduler_type.follows_evaluations() {
        return Ok(LrSchedule::new(LrSchedulerType::Constant.as_str(), [])?);
    }
    let kwargs = &train.lr_scheduler_kwargs;
    let schedule = LrSchedule::new(train.lr_scheduler_type.as_str(), kwargs.numbers())?;
    Ok(schedule.with_words(kwargs.words())?)
}

/// The step of a batch and its position in the step, both from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchPosition {
    pub step: u64,
    pub batch_in_step: u64,
    /// Whether the batch is the last of its step.
    pub is_last: bool,
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use traind_job_file::JobFile;

    use super::*;

    fn train(train: &str) -> Train {
        let yaml = format!(
            "{{name: a, model: {{name_or_path: ./a, task: sequence-classification, num_labels: 2}}, \
             data: {{train: a.csv, validation: b.csv}}, output_dir: out, train: {{{train}}}}}"
        );
        JobFile::parse(&yaml, Path::new("/")).unwrap().job.train
    }

    /// The settings of a job and the Trainer's learning rate for each update, as written by
    /// `scripts/fixtures/schedules.py`.
    #[derive(serde::Deserialize)]
    struct Rates {
        train: serde_json::Map<String, serde_json::Value>,
        warmup_steps: u64,
        rates: Vec<f64>,
    }

    #[test]
    fn logs_of_epochs_are_behind_evaluations_of_steps() {
        let check = |lines: &str, expect: bool| {
            let timetable = Timetable::new(&train(lines), 4).unwrap();
            assert_eq!(timetable.logs_behind_evaluations(1), expect, "{lines}");
            assert_eq!(timetable.logs_behind_evaluations(2), expect, "{lines}");
        };
        check("logging_strategy: epoch, eval_strategy: steps, eval_steps: 1", true);
        check("logging_strategy: epoch, eval_strategy: epoch", false);
        check("logging_strategy: steps, eval_strategy: steps, eval_steps: 1", false);
        let first = "logging_strategy: epoch, logging_first_step: true, eval_strategy: steps, eval_steps: 1";
        let timetable = Timetable::new(&train(first), 4).unwrap();
        assert_eq!([1, 2].map(|done| timetable.logs_behind_evaluations(done)), [false, true]);
    }

    #[test]
    fn rates_are_those_of_the_trainer() {
        const RATES: &str = "../../xla-backend/models/fixtures/schedules/rates.json";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RATES);
        let cases: Vec<Rates> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in &cases {
            let settings = serde_json::to_string(&case.train).unwrap();
            let settings = &settings[1..settings.len() - 1];
            check_rates(case, settings);
            // The older name of the key.
            if case.train.get("warmup_steps").is_some_and(|steps| steps.is_f64()) {
                check_rates(case, &settings.replace("warmup_steps", "warmup_ratio"));
            }
        }
        for name in traind_job_file::LrSchedulerType::ALL {
            let is_covered =
                cases.iter().any(|case| case.train["lr_scheduler_type"] == name.as_str());
            assert!(is_covered || name.follows_evaluations(), "{name}");
        }
    }

    fn check_rates(case: &Rates, settings: &str) {
        let timetable = Timetable::new(&train(settings), 1).unwrap();
        assert_eq!(timetable.warmup_steps, case.warmup_steps, "{settings}");
        for (done, expect) in case.rates.iter().enumerate() {
            let rate = timetable.learning_rate(done as u64, &Plateau::default());
            // The file has 13 digits.
            let close = (rate - expect).abs() <= 1e-12 * expect + 1e-20;
            assert!(close, "{settings}, after {done}: {rate}, expected {expect}");
        }
    }

    #[test]
    fn no_step_continues_into_the_next_epoch() {
        let mut train = train("num_train_epochs: 2");
        train.gradient_accumulation_steps = 3;
        let timetable = Timetable::new(&train, 7).unwrap();
        assert_eq!((timetable.steps_per_epoch, timetable.max_steps), (3, 6));
        let positions: Vec<(u64, u64, bool)> = (0..9)
            .map(|batch| timetable.position(batch))
            .map(|position| (position.step, position.batch_in_step, position.is_last))
            .collect();
        let (first, last) = (false, true);
        let expect = [
            (0, 0, first),
            (0, 1, first),
            (0, 2, last),
            (1, 0, first),
            (1, 1, first),
            (1, 2, last),
            (2, 0, last),
            (3, 0, first),
            (3, 1, first),
        ];
        assert_eq!(positions, expect);
        let batches: Vec<u64> = (0..=6).map(|step| timetable.batches_before(step)).collect();
        assert_eq!(batches, [0, 3, 6, 7, 10, 13, 14]);
        let epochs: Vec<f64> = (0..=4).map(|step| timetable.epoch(step)).collect();
        assert_eq!(epochs, [0.0, 3.0 / 7.0, 6.0 / 7.0, 1.0, 1.0 + 3.0 / 7.0]);
    }

    /// The settings of a job with `STEPS_PER_EPOCH` steps in each epoch, and the steps after which the
    /// Trainer logs, evaluates and saves, as written by `scripts/fixtures/timetable.py`.
    #[derive(serde::Deserialize)]
    struct Flow {
        train: serde_json::Map<String, serde_json::Value>,
        logs: Vec<u64>,
        evaluates: Vec<u64>,
        saves: Vec<u64>,
    }

    #[test]
    fn logs_evaluations_and_checkpoints_follow_the_trainer() {
        const STEPS_PER_EPOCH: u64 = 4;
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/timetable.json");
        let cases: Vec<Flow> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in &cases {
            let settings = serde_json::to_string(&case.train).unwrap();
            let timetable =
                Timetable::new(&train(&settings[1..settings.len() - 1]), STEPS_PER_EPOCH).unwrap();
            let steps = |due: &dyn Fn(u64) -> bool| -> Vec<u64> {
                (1..=timetable.max_steps).filter(|done| due(*done)).collect()
            };
            assert_eq!(steps(&|done| timetable.logs_after(done)), case.logs, "{settings}");
            assert_eq!(
                steps(&|done| timetable.evaluates_after(done)),
                case.evaluates,
                "{settings}"
            );
            assert_eq!(steps(&|done| timetable.saves_after(done)), case.saves, "{settings}");
        }
    }

    /// A run that resumed after step 5 of epochs of four steps, and began the second epoch again.
    #[test]
    fn data_that_begin_an_epoch_again_lag_behind() {
        let train = train("num_train_epochs: 3, save_strategy: epoch, eval_strategy: epoch");
        let timetable = Timetable::new(&train, 4).unwrap().with_data_lag(1);
        assert_eq!(timetable.max_steps, 12);
        assert_eq!(timetable.batches_before(5), 4, "the first batch of the second epoch");
        let first = timetable.position(timetable.batches_before(5));
        assert_eq!((first.step, first.batch_in_step, first.is_last), (5, 0, true));
        assert_eq!(timetable.batches_before(12), 11);
        assert_eq!(timetable.epoch(9), 2.0);
        let ends: Vec<u64> = (6..=12).filter(|done| timetable.saves_after(*done)).collect();
        assert_eq!(ends, [9, 12]);
        assert_eq!(timetable.next_evaluation(6), 9);
    }

    #[test]
    fn an_epoch_counts_once_it_starts() {
        let check = |settings: &str, expect| {
            let timetable = Timetable::new(&train(settings), 8).unwrap();
            assert_eq!(timetable.num_train_epochs, expect, "{settings}");
        };
        check("max_steps: 7, gradient_accumulation_steps: 3", 3);
        check("max_steps: 6, gradient_accumulation_steps: 3", 2);
        check("max_steps: 2", 1);
        check("num_train_epochs: 2.4", 3);
    }

    #[test]
    fn checkpoints_follow_every_interval_and_the_end() {
        let check = |train: &str, expect: &[u64]| {
            let timetable = Timetable::new(&self::train(train), 4).unwrap();
            let saves: Vec<u64> =
                (1..=timetable.max_steps).filter(|done| timetable.saves_after(*done)).collect();
            assert_eq!(saves, expect, "{train}");
            if timetable.save_steps.is_some() {
                assert_eq!(timetable.saves_left(0), expect.len() as u64, "{train}");
                assert_eq!(timetable.saves_left(expect[0]), expect.len() as u64 - 1, "{train}");
            }
        };
        check("max_steps: 10, save_steps: 4", &[4, 8, 10]);
        check("max_steps: 10, save_steps: 0.5", &[5, 10]);
        check("num_train_epochs: 2.5, save_strategy: epoch", &[4, 8, 10]);
        check("max_steps: 10, save_strategy: no", &[]);
    }
}
