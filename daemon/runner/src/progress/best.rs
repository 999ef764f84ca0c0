//! The best evaluation so far, and early stopping, as in the Trainer and transformers'
//! `EarlyStoppingCallback`.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use traind_job_file::{SaveStrategy, Train};

use crate::error::{RunError, RunResult};
use crate::metrics::Metrics;

/// The best evaluation so far.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Best {
    pub metric: Option<f64>,
    /// Steps done before the best evaluation.
    pub step: Option<u64>,
    /// Steps of the best checkpoint, which need not be the best step.
    pub checkpoint: Option<u64>,
    /// Consecutive evaluations that were not better.
    pub evaluations_without: u32,
}

/// Compares evaluations.
#[derive(Clone, Debug)]
pub(crate) struct BestRule {
    /// Begins with `eval_`.
    metric: String,
    greater_is_better: bool,
    patience: Option<u32>,
    threshold: f64,
}

impl BestRule {
    /// `None` where the job needs no best model.
    pub(crate) fn of(train: &Train) -> Option<BestRule> {
        let is_needed = train.load_best_model_at_end
            || train.early_stopping_patience.is_some()
            || train.save_strategy == SaveStrategy::Best
            || train.lr_scheduler_type.follows_evaluations();
        let default = is_needed.then_some("loss");
        let name = train.metric_for_best_model.as_deref().or(default)?;
        let metric =
            if name.starts_with("eval_") { name.to_owned() } else { format!("eval_{name}") };
        Some(BestRule {
            greater_is_better: train.greater_is_better.unwrap_or(!name.ends_with("loss")),
            metric,
            patience: train.early_stopping_patience,
            threshold: train.early_stopping_threshold,
        })
    }

    /// Compares an evaluation with the best so far; returns whether it is better.
    pub(crate) fn observe(&self, best: &mut Best, step: u64, metrics: &Metrics) -> RunResult<bool> {
        let value = self.value(metrics)?;
        let improves = best.metric.is_none_or(|known| {
            self.is_better(value, known) && (value - known).abs() > self.threshold
        });
        best.evaluations_without = if improves { 0 } else { best.evaluations_without + 1 };
        let worst = if self.greater_is_better { f64::NEG_INFINITY } else { f64::INFINITY };
        let is_best = self.is_better(value, best.metric.unwrap_or(worst));
        if is_best {
            (best.metric, best.step) = (Some(value), Some(step));
        }
        Ok(is_best)
    }

    /// Whether early stopping applies.
    pub(crate) fn stops_early(&self, best: &Best) -> bool {
        self.patience.is_some_and(|patience| best.evaluations_without >= patience)
    }

    /// Fails where `metrics` lack the metric.
    pub(crate) fn check(&self, metrics: &Metrics) -> RunResult<()> {
        self.value(metrics).map(drop)
    }

    /// Returns the callback's entry in `stateful_callbacks`.
    pub(crate) fn callback_state(&self, best: &Best) -> Option<(String, Value)> {
        let state = json!({
            "args": {
                "early_stopping_patience": self.patience?,
                "early_stopping_threshold": self.threshold,
            },
            "attributes": { "early_stopping_patience_counter": best.evaluations_without },
        });
        Some(("EarlyStoppingCallback".to_owned(), state))
    }

    /// The metric's value.
    pub(super) fn value(&self, metrics: &Metrics) -> RunResult<f64> {
        let without_prefix = |name: &String| name.trim_start_matches("eval_").to_owned();
        metrics.get(&self.metric).copied().ok_or_else(|| RunError::NoSuchMetric {
            name: without_prefix(&self.metric),
            computed: metrics.keys().map(without_prefix).collect(),
        })
    }

    fn is_better(&self, value: f64, than: f64) -> bool {
        if self.greater_is_better { value > than } else { value < than }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(greater_is_better: bool, patience: u32, threshold: f64) -> BestRule {
        let metric = "eval_f1".to_owned();
        BestRule { metric, greater_is_better, patience: Some(patience), threshold }
    }

    /// `expect` has for each value whether it is the best, and transformers' counter after it.
    fn check(rule: &BestRule, values: &[f64], expect: &[(bool, u32)]) {
        let mut best = Best::default();
        for ((step, value), (is_best, counter)) in (1..).zip(values).zip(expect) {
            let metrics = Metrics::from([("eval_f1".to_owned(), *value)]);
            assert_eq!(rule.observe(&mut best, step, &metrics).unwrap(), *is_best, "{value}");
            assert_eq!(best.evaluations_without, *counter, "after {value}");
            assert_eq!(rule.stops_early(&best), Some(*counter) >= rule.patience);
        }
    }

    #[test]
    fn an_evaluation_that_is_not_better_is_counted() {
        let values = [0.5, 0.6, 0.6, 0.55, 0.7];
        let expect = [(true, 0), (true, 0), (false, 1), (false, 2), (true, 0)];
        check(&rule(true, 3, 0.0), &values, &expect);
        let expect = [(true, 0), (false, 1), (false, 2), (false, 3), (false, 4)];
        check(&rule(false, 3, 0.0), &values, &expect);
    }

    #[test]
    fn an_improvement_below_the_threshold_is_best_but_counted() {
        let expect = [(true, 0), (true, 1), (true, 2), (true, 0)];
        check(&rule(true, 2, 0.1), &[0.5, 0.55, 0.6, 0.75], &expect);
    }

    #[test]
    fn a_metric_that_is_not_a_number_is_never_best() {
        check(&rule(true, 2, 0.0), &[f64::NAN, 0.1], &[(false, 0), (true, 0)]);
    }

    #[test]
    fn an_unknown_metric_is_reported_with_the_known_ones() {
        let metrics = Metrics::from([("eval_accuracy".to_owned(), 1.0)]);
        let error = rule(true, 1, 0.0).check(&metrics).unwrap_err().to_string();
        assert!(error.contains("f1") && error.contains("accuracy"), "{error}");
    }
}
