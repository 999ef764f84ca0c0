//! Metrics that several objectives give of each pair.
//!
//! P pairs.

use traind_xla::{DType, Tensor};

use super::scalars::{column, margins};
use crate::error::Result;

/// A metric of a batch, under TRL's name: the mean of a column over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// TRL's name.
    pub name: &'static str,
    /// The column that is 1 where the batch has the metric, and 0 where it has none. All batches have it by default.
    pub presence: Option<usize>,
}

impl Metric {
    pub(in crate::tasks) const fn of(name: &'static str) -> Metric {
        Metric { name, presence: None }
    }

    pub(in crate::tasks) const fn where_present(name: &'static str, column: usize) -> Metric {
        Metric { name, presence: Some(column) }
    }

    /// The metric by the means of all columns, the first of which are those of the metrics; none where no batch has it.
    pub fn value(&self, place: usize, means: &[f64]) -> Option<f64> {
        let value = *means.get(place)?;
        let Some(column) = self.presence else { return Some(value) };
        let share = *means.get(column)?;
        (share > 0.0).then(|| value / share)
    }

    /// The names and values of those of `metrics` that a batch has, by the means of all columns.
    pub fn values<'a>(
        metrics: &'a [Metric],
        means: &'a [f64],
    ) -> impl Iterator<Item = (&'static str, f64)> + 'a {
        let metrics = metrics.iter().enumerate();
        metrics.filter_map(|(place, metric)| Some((metric.name, metric.value(place, means)?)))
    }
}

/// The metrics of [`of_rewards`].
pub(super) const OF_REWARDS: [Metric; 6] = [
    Metric::of("rewards/chosen"),
    Metric::of("rewards/rejected"),
    Metric::of("rewards/accuracies"),
    Metric::of("rewards/margins"),
    Metric::of("logps/chosen"),
    Metric::of("logps/rejected"),
];

/// The metrics of [`of_rewards`], and `others` behind them.
pub(super) const fn with_rewards<const N: usize, const M: usize>(
    others: [Metric; N],
) -> [Metric; M] {
    assert!(M == N + OF_REWARDS.len());
    let mut all = [OF_REWARDS[0]; M];
    let mut at = 0;
    while at < M {
        all[at] =
            if at < OF_REWARDS.len() { OF_REWARDS[at] } else { others[at - OF_REWARDS.len()] };
        at += 1;
    }
    all
}

/// The rewards, whether the chosen one is larger, its margin, and the log-probabilities, f32[P] each, of rewards and
/// log-probabilities f32[P, 2].
pub(super) fn of_rewards(rewards: &Tensor, log_probabilities: &Tensor) -> Result<Vec<Tensor>> {
    let [chosen, rejected] = [column(rewards, 0)?, column(rewards, 1)?];
    let accuracies = chosen.gt(&rejected)?.convert(DType::F32)?;
    let log_probabilities = [column(log_probabilities, 0)?, column(log_probabilities, 1)?];
    let mut metrics = vec![chosen, rejected, accuracies, margins(rewards)?];
    metrics.extend(log_probabilities);
    Ok(metrics)
}

/// M metrics f32[P], side by side: f32[P, M]. Nothing flows back through them.
pub(in crate::tasks) fn columns(metrics: &[Tensor]) -> Result<Tensor> {
    let columns = metrics.iter().map(|metric| metric.stop_gradient()?.unsqueeze(1));
    let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
    let columns: Vec<&Tensor> = columns.iter().collect();
    Ok(columns[0].trace().concatenate(&columns, 1)?)
}
