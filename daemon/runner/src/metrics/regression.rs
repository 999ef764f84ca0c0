//! Regression: errors and correlations.

use super::Metrics;
use super::averages::ratio;

/// Returns `mse`, `mae`, `pearson` and `spearmanr`, each the mean over the `width` columns of a row. A
/// correlation with a constant is 0.
pub(crate) fn regression(width: usize, labels: &[f32], predictions: &[f32]) -> Metrics {
    let mut metrics = Metrics::new();
    for index in 0..width {
        let column = |values: &[f32]| -> Vec<f64> {
            values.iter().skip(index).step_by(width).copied().map(f64::from).collect()
        };
        for (name, value) in column_metrics(&column(labels), &column(predictions)) {
            *metrics.entry(name).or_default() += value / width as f64;
        }
    }
    metrics
}

fn column_metrics(labels: &[f64], predictions: &[f64]) -> Metrics {
    let differences = || predictions.iter().zip(labels).map(|(guess, label)| guess - label);
    let rows = labels.len() as f64;
    let squares: f64 = differences().map(|difference| difference * difference).sum();
    let distances: f64 = differences().map(f64::abs).sum();
    Metrics::from([
        ("mse".to_owned(), ratio(squares, rows)),
        ("mae".to_owned(), ratio(distances, rows)),
        ("pearson".to_owned(), pearson(labels, predictions)),
        ("spearmanr".to_owned(), pearson(&ranks(labels), &ranks(predictions))),
    ])
}

pub(super) fn pearson(one: &[f64], other: &[f64]) -> f64 {
    let (one, other) = (centered(one), centered(other));
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    ratio(dot(&one, &other), dot(&one, &one).sqrt() * dot(&other, &other).sqrt())
}

fn centered(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| value - mean).collect()
}

/// Returns the ranks in ascending order; equal values share their mean rank.
pub(super) fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&one, &other| values[one].total_cmp(&values[other]));
    let mut ranks = vec![0.0; values.len()];
    let mut first = 0;
    for equal in order.chunk_by(|&one, &other| values[one] == values[other]) {
        let mean = first as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|&row| ranks[row] = mean);
        first += equal.len();
    }
    ranks
}
