//! The schedule `reduce_lr_on_plateau`, as `torch.optim.lr_scheduler.ReduceLROnPlateau`: lowers the
//! learning rate when a metric of the evaluations has not improved for a while.

use serde::{Deserialize, Serialize};
use traind_job_file::Train;

use super::BestRule;
use crate::error::RunResult;
use crate::metrics::Metrics;

/// The state of the schedule, which a later attempt continues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Plateau {
    /// The job's rate and what it was lowered to; absent before.
    lowered: Option<Lowered>,
    /// The best value so far.
    best: Option<f64>,
    /// Consecutive evaluations that did not improve.
    bad_evaluations: u64,
    /// Evaluations that are still not counted after the rate was lowered.
    cooldown_left: u64,
}

/// A rate that was lowered.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Lowered {
    from: f64,
    to: f64,
}

impl Plateau {
    /// The rate that evaluations have lowered `learning_rate` to. A job that resumes with another rate
    /// begins with that.
    pub(crate) fn lowered(&self, learning_rate: f64) -> f64 {
        let lowered = self.lowered.filter(|lowered| lowered.from == learning_rate);
        lowered.map_or(learning_rate, |lowered| lowered.to)
    }
}

/// The options of the schedule.
#[derive(Clone, Debug)]
pub(crate) struct PlateauRule {
    metric: BestRule,
    learning_rate: f64,
    prefers_more: bool,
    threshold: f64,
    threshold_is_relative: bool,
    factor: f64,
    patience: u64,
    cooldown: u64,
    min_lr: f64,
    /// Changes of the rate up to this one are not made.
    eps: f64,
}

impl PlateauRule {
    /// `None` where the job has another schedule.
    pub(crate) fn of(train: &Train) -> Option<PlateauRule> {
        if !train.lr_scheduler_type.follows_evaluations() {
            return None;
        }
        let kwargs = &train.lr_scheduler_kwargs;
        let number = |name, default| kwargs.number(name).unwrap_or(default);
        Some(PlateauRule {
            metric: BestRule::of(train)?,
            learning_rate: train.learning_rate,
            prefers_more: kwargs.word("mode") == Some("max"),
            threshold: number("threshold", 1e-4),
            threshold_is_relative: kwargs.word("threshold_mode") != Some("abs"),
            factor: number("factor", 0.1),
            patience: number("patience", 10.0) as u64,
            cooldown: number("cooldown", 0.0) as u64,
            min_lr: number("min_lr", 0.0),
            eps: number("eps", 1e-8),
        })
    }

    /// Takes an evaluation into account.
    pub(crate) fn observe(&self, state: &mut Plateau, metrics: &Metrics) -> RunResult<()> {
        self.observe_value(state, self.metric.value(metrics)?);
        Ok(())
    }

    fn observe_value(&self, state: &mut Plateau, value: f64) {
        if self.improves(value, state.best) {
            (state.best, state.bad_evaluations) = (Some(value), 0);
        } else {
            state.bad_evaluations += 1;
        }
        if state.cooldown_left > 0 {
            state.cooldown_left -= 1;
            state.bad_evaluations = 0;
        }
        if state.bad_evaluations > self.patience {
            self.lower(state);
            (state.cooldown_left, state.bad_evaluations) = (self.cooldown, 0);
        }
    }

    fn improves(&self, value: f64, best: Option<f64>) -> bool {
        let Some(best) = best else { return !value.is_nan() };
        match (self.prefers_more, self.threshold_is_relative) {
            (false, true) => value < best * (1.0 - self.threshold),
            (false, false) => value < best - self.threshold,
            (true, true) => value > best * (self.threshold + 1.0),
            (true, false) => value > best + self.threshold,
        }
    }

    fn lower(&self, state: &mut Plateau) {
        let rate = state.lowered(self.learning_rate);
        let lower = (rate * self.factor).max(self.min_lr);
        if rate - lower > self.eps {
            state.lowered = Some(Lowered { from: self.learning_rate, to: lower });
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use traind_job_file::JobFile;

    use super::*;

    /// The settings of a job, the metric of each evaluation and the Trainer's rate after it, as
    /// written by `scripts/fixtures/schedules.py`.
    #[derive(serde::Deserialize)]
    struct Case {
        train: serde_json::Map<String, serde_json::Value>,
        metrics: Vec<f64>,
        rates: Vec<f64>,
    }

    #[test]
    fn rates_are_those_of_the_trainer() {
        const RATES: &str = "../../xla-backend/models/fixtures/schedules/plateau.json";
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(RATES);
        let cases: Vec<Case> = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        for case in &cases {
            let rule = rule(&serde_json::to_string(&case.train).unwrap());
            let mut state = Plateau::default();
            let rates: Vec<f64> = case
                .metrics
                .iter()
                .map(|value| {
                    rule.observe_value(&mut state, *value);
                    // A checkpoint in between changes nothing.
                    let stored = serde_json::to_string(&state).unwrap();
                    state = serde_json::from_str(&stored).unwrap();
                    state.lowered(rule.learning_rate)
                })
                .collect();
            assert_eq!(rates, case.rates, "{:?}", case.train);
        }
        assert!(cases.iter().any(|case| case.rates.last() < case.rates.first()));
    }

    fn rule(train: &str) -> PlateauRule {
        let yaml = format!(
            "{{name: a, model: {{name_or_path: ./a, task: sequence-classification, num_labels: 2}}, \
             data: {{train: a.csv, validation: b.csv}}, output_dir: out, train: {train}}}"
        );
        let job = JobFile::parse(&yaml, Path::new("/")).unwrap().job;
        PlateauRule::of(&job.train).unwrap()
    }
}
