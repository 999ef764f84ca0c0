//! The results that an evaluation step reads back from the cores: no more than the task's metrics and
//! predictions need.
//!
//! B rows, S positions, C classes, M metrics.

use std::ops::Range;

use traind_models::{Batch, OutputKind, tasks};
use traind_xla::Tensor;
use traind_xla::runtime::{Fetched, HostArray, Recording};

use super::forward::LastOutput;
use crate::error::Result;

const LOGITS: &str = "logits";
const BEST_CLASSES: &str = "best_classes";
const PROBABILITIES: &str = "probabilities";
const CORRECT_SUM: &str = "correct_sum";
const ROW_METRICS: &str = "row_metrics";

/// The results besides the sums of the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readout {
    /// The logits of each row, f32[B, C].
    Logits,
    /// The scores of each token as an answer's start, then as its end: f32[B, 2, S].
    SpanLogits,
    /// The best class of each token, s32[B, S], and its probability, f32[B, S].
    BestClasses,
    /// The number of labels with the largest logit. Logits over a vocabulary are too large to read
    /// back.
    CorrectSum,
    /// The metrics of each row, which is a pair: f32[B, M].
    Preferences,
}

/// The results of a row; empty where only sums are read back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RowValues {
    /// Logits, metrics, or the probabilities of `classes`.
    pub values: Vec<f32>,
    /// The best class of each token.
    pub classes: Vec<i32>,
}

impl Readout {
    pub(crate) fn record(
        self,
        at: &mut Recording<'_>,
        kind: OutputKind,
        last: &LastOutput,
        batch: &Batch,
    ) -> Result<()> {
        let output = &last.output;
        let logits = &output.logits.values;
        match self {
            Readout::Logits => at.fetch(LOGITS, logits),
            Readout::SpanLogits => at.fetch(LOGITS, &logits.transpose(&[0, 2, 1])?),
            Readout::BestClasses => {
                at.fetch(BEST_CLASSES, &logits.argmax(2)?);
                at.fetch(PROBABILITIES, &best_probability(logits)?);
            }
            Readout::CorrectSum => {
                if let Some(correct) = tasks::correct_sum(kind, &output.logits, batch)? {
                    at.fetch(CORRECT_SUM, &correct);
                }
            }
            Readout::Preferences => {
                if let Some(preferences) = &last.preferences {
                    at.fetch(ROW_METRICS, &preferences.metrics);
                }
            }
        }
        Ok(())
    }

    /// Returns the rows of one data shard's batch, empty slots included. `spans` locates the tokens of each
    /// row: results of padding are dropped.
    pub fn rows(
        self,
        fetched: &Fetched,
        shard: usize,
        spans: &[Range<usize>],
    ) -> Result<Vec<RowValues>> {
        let rows = spans.len();
        let without_classes = |values| RowValues { values, classes: Vec::new() };
        Ok(match self {
            Readout::Logits | Readout::Preferences => {
                let name = if self == Readout::Logits { LOGITS } else { ROW_METRICS };
                let values = by_row(fetched.per_core(name)?[shard].to_f32()?, rows);
                values.map(without_classes).collect()
            }
            Readout::SpanLogits => {
                let values = by_row(fetched.per_core(LOGITS)?[shard].to_f32()?, rows);
                let scores = values.zip(spans).map(|(values, span)| {
                    let (starts, ends) = values.split_at(values.len() / 2);
                    [&starts[span.clone()], &ends[span.clone()]].concat()
                });
                scores.map(without_classes).collect()
            }
            Readout::BestClasses => {
                let classes = by_row(fetched.per_core(BEST_CLASSES)?[shard].to_s32()?, rows);
                let values = by_row(fetched.per_core(PROBABILITIES)?[shard].to_f32()?, rows);
                let rows = classes.zip(values).zip(spans).map(|((classes, values), span)| {
                    let classes = classes[span.clone()].to_vec();
                    RowValues { values: values[span.clone()].to_vec(), classes }
                });
                rows.collect()
            }
            Readout::CorrectSum => vec![RowValues::default(); rows],
        })
    }

    /// The number of labels in one data shard's batch with the largest logit; 0 where they are not counted.
    pub fn correct_sum(self, fetched: &Fetched, shard: usize) -> Result<f64> {
        match self {
            Readout::CorrectSum => scalar(&fetched.per_core(CORRECT_SUM)?[shard]),
            _ => Ok(0.0),
        }
    }
}

/// The softmax of the largest logit, f32[B, S].
fn best_probability(logits: &Tensor) -> Result<Tensor> {
    Ok(logits.max(&[2])?.sub(&logits.logsumexp(2)?)?.exp()?)
}

fn by_row<T: Clone>(values: Vec<T>, rows: usize) -> impl Iterator<Item = Vec<T>> {
    let width = values.len() / rows;
    (0..rows).map(move |row| values[row * width..(row + 1) * width].to_vec())
}

/// The value of an array of one element.
pub fn scalar(array: &HostArray) -> Result<f64> {
    Ok(f64::from(array.to_f32()?[0]))
}
