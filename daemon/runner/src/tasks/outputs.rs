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
    /// The outputs in the order of the data set.
    pub rows: Vec<RowOutput>,
    /// The rows of a full batch, on all cores.
    pub rows_per_batch: usize,
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
        (self.loss.weights > 0.0).then(|| self.loss.sum / self.loss.weights)
    }

    /// The mean of the batches' means of a value of each row, as TRL's trainers log it.
    pub(crate) fn mean_of_batches(&self, place: usize) -> f64 {
        let batches = self.rows.chunks(self.rows_per_batch.max(1));
        let count = batches.len().max(1) as f64;
        batches.map(|rows| mean(rows, place)).sum::<f64>() / count
    }

    /// The values of all rows, concatenated.
    pub(crate) fn values(&self) -> Vec<f32> {
        self.rows.iter().flat_map(|row| row.values.iter().copied()).collect()
    }
}

fn mean(rows: &[RowOutput], place: usize) -> f64 {
    let values = rows.iter().filter_map(|row| row.values.get(place));
    values.map(|value| f64::from(*value)).sum::<f64>() / rows.len() as f64
}

/// The weight of a batch's mean loss in that of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BatchShare {
    /// A share by the batch's rows, as with the Trainer.
    Rows,
    /// An equal share for each batch, as with Seq2SeqTrainer, whose last batch counts as a full one.
    Equal,
}

impl BatchShare {
    /// The weight of a batch of `rows`.
    pub(crate) fn of(self, rows: usize) -> usize {
        match self {
            BatchShare::Rows => rows,
            BatchShare::Equal => 1,
        }
    }
}

/// The divisor of the sum of the losses of a batch of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LossDivisor {
    /// The labels that the Trainer counts, of which nothing predicts some for a few models. Batches without any do not
    /// count.
    Labels,
    /// The predicted tokens, at least one, as in TRL's trainers: the loss of a batch without any is 0.
    Predicted,
}

impl LossDivisor {
    pub(crate) fn of(self, labels: f64, predicted: f64) -> f64 {
        match self {
            LossDivisor::Labels => labels,
            LossDivisor::Predicted => predicted.max(1.0),
        }
    }
}

/// The mean of the batches' mean losses, each weighted by its [`BatchShare`]. Where every row has one
/// label and batches count by rows, it does not depend on the batches.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossMean {
    sum: f64,
    weights: f64,
}

impl LossMean {
    /// Adds a global batch, the sum of whose losses is divided by `divisor`. A batch without labels,
    /// for which the Trainer's mean is not a number, does not count.
    pub(crate) fn add(&mut self, loss_sum: f64, divisor: f64, weight: usize) {
        if divisor > 0.0 {
            self.sum += loss_sum * (weight as f64 / divisor);
            self.weights += weight as f64;
        }
    }

    /// Adds a global batch whose losses count by their weights, of which `weight_sum` is the sum.
    pub(crate) fn add_weighted(&mut self, loss_sum: f64, weight_sum: f64) {
        self.sum += loss_sum;
        self.weights += weight_sum;
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
    fn the_loss_of_seq2seq_is_the_mean_of_batches() {
        let mean = |share: BatchShare| {
            let mut outputs = Outputs::default();
            for (loss_sum, divisor, rows) in [(6.0, 3.0, 2), (5.0, 1.0, 1)] {
                outputs.loss.add(loss_sum, divisor, share.of(rows));
            }
            outputs.loss()
        };
        assert_eq!(mean(BatchShare::Equal), Some((2.0 + 5.0) / 2.0));
        assert_eq!(mean(BatchShare::Rows), Some((2.0 * 2.0 + 5.0) / 3.0));
    }

    #[test]
    fn batches_count_alike_in_means_of_values() {
        let rows =
            [1.0, 3.0, 8.0].map(|value| RowOutput { values: vec![0.0, value], classes: vec![] });
        let outputs = Outputs { rows: rows.to_vec(), rows_per_batch: 2, ..Outputs::default() };
        assert_eq!(outputs.mean_of_batches(1), 5.0);
        assert_eq!(Outputs::default().mean_of_batches(1), 0.0);
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

    /// GPT-2 counts labels that nothing predicts. The second batch has none at all.
    #[test]
    fn the_losses_of_fine_tuning_are_divided_as_by_trl() {
        let mean = |divisor: LossDivisor| {
            let mut outputs = Outputs::default();
            for (loss_sum, labels, predicted) in [(64.0, 64.0, 16.0), (0.0, 0.0, 0.0)] {
                outputs.loss.add(loss_sum, divisor.of(labels, predicted), 2);
            }
            outputs.loss()
        };
        assert_eq!(mean(LossDivisor::Predicted), Some(2.0));
        assert_eq!(mean(LossDivisor::Labels), Some(1.0));
    }
}
