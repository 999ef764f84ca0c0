//! The results of an evaluation.

use crate::step::RowValues;

/// The results of a row, as hosts send them to the first one.
#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct RowOutput {
    /// Logits, metrics, or the probabilities of `classes`.
    #[prost(float, repeated, tag = "1")]
    pub values: Vec<f32>,
    /// The best class of each token.
    #[prost(sint32, repeated, tag = "2")]
    pub classes: Vec<i32>,
}

impl From<RowValues> for RowOutput {
    fn from(row: RowValues) -> RowOutput {
        RowOutput { values: row.values, classes: row.classes }
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    /// In dataset order.
    pub rows: Vec<RowOutput>,
    /// The mean losses of all batches.
    pub loss: LossMean,
    /// The number of labelled rows or tokens; 0 in a split without labels.
    pub weight_sum: f64,
    /// The number of labels with the largest logit, where the task counts them.
    pub correct_sum: f64,
    /// The mean of the accuracies of all batches, where the task counts labels with the largest logit.
    pub accuracy: AccuracyMean,
    /// Present where texts are generated.
    pub texts: Option<Texts>,
}

/// The generated texts, in dataset order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Texts {
    pub predictions: Vec<String>,
    /// The rows' own targets; empty in a split without labels.
    pub references: Vec<String>,
    /// The number of generated tokens, padding not counted.
    pub lengths: usize,
}

impl Outputs {
    /// The loss as the Trainer defines it; `None` without labels.
    pub(crate) fn loss(&self) -> Option<f64> {
        (self.loss.rows > 0.0).then(|| self.loss.sum / self.loss.rows)
    }

    /// The values of all rows, concatenated.
    pub(crate) fn values(&self) -> Vec<f32> {
        self.rows.iter().flat_map(|row| row.values.iter().copied()).collect()
    }
}

/// The mean of the batches' mean losses, each weighted by its rows. Where every row has one label,
/// it does not depend on the batches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossMean {
    sum: f64,
    rows: f64,
}

impl LossMean {
    /// Adds a global batch, the sum of whose losses is divided by `divisor`. A batch without labels,
    /// for which the Trainer's mean is not a number, does not count.
    pub(crate) fn add(&mut self, loss_sum: f64, divisor: f64, rows: usize) {
        if divisor > 0.0 {
            self.sum += loss_sum * (rows as f64 / divisor);
            self.rows += rows as f64;
        }
    }
}

/// The mean of the batches' accuracies, each of which counts alike, as TRL's trainers log it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct AccuracyMean {
    sum: f64,
    batches: f64,
}

impl AccuracyMean {
    /// Adds a global batch with `correct` of `labels`. One without labels counts as 0.
    pub(crate) fn add(&mut self, correct: f64, labels: f64) {
        self.sum += if labels > 0.0 { correct / labels } else { 0.0 };
        self.batches += 1.0;
    }

    pub(crate) fn value(&self) -> f64 {
        self.sum / self.batches.max(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_is_the_mean_of_batches_weighted_by_their_rows() {
        let mut outputs = Outputs::default();
        assert_eq!(outputs.loss(), None);
        // Two rows with three labels, none, and one row with one label.
        for (loss_sum, divisor, rows) in [(6.0, 3.0, 2), (0.0, 0.0, 2), (5.0, 1.0, 1)] {
            outputs.loss.add(loss_sum, divisor, rows);
        }
        assert_eq!(outputs.loss(), Some((2.0 * 2.0 + 5.0) / 3.0));
    }

    #[test]
    fn the_accuracy_is_the_mean_of_batches() {
        let mut mean = AccuracyMean::default();
        assert_eq!(mean.value(), 0.0);
        for (correct, labels) in [(3.0, 4.0), (1.0, 1.0), (0.0, 0.0)] {
            mean.add(correct, labels);
        }
        assert_eq!(mean.value(), 1.75 / 3.0);
    }
}
