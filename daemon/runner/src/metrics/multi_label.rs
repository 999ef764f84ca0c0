//! Multi-label classification: any number of classes in each row.

use super::Metrics;
use super::averages::{ClassCounts, averages, ratio};

/// Returns `accuracy`, the share of rows with all classes right, and `precision`, `recall` and `f1` as
/// `_macro`, `_micro` and `_weighted` averages over all classes; the plain names are `_micro`.
///
/// `labels` and `logits` have `classes` values in each row. A class is predicted where its logit is
/// above 0, which is a probability above one half.
pub(crate) fn multi_label(classes: usize, labels: &[f32], logits: &[f32]) -> Metrics {
    let mut counts = vec![ClassCounts::default(); classes];
    let mut right = 0.0;
    let rows = labels.chunks(classes).zip(logits.chunks(classes));
    for (labels, logits) in rows.clone() {
        let pairs = labels.iter().zip(logits).map(|(label, logit)| (*label > 0.0, *logit > 0.0));
        for (count, (label, predicted)) in counts.iter_mut().zip(pairs.clone()) {
            count.support += u64::from(label);
            count.predicted += u64::from(predicted);
            count.correct += u64::from(label && predicted);
        }
        right += f64::from(u8::from(pairs.clone().all(|(label, predicted)| label == predicted)));
    }
    let mut metrics = averages(&counts);
    for name in ["precision", "recall", "f1"] {
        let micro = metrics[&format!("{name}_micro")];
        metrics.insert(name.to_owned(), micro);
    }
    metrics.insert("accuracy".to_owned(), ratio(right, rows.len() as f64));
    metrics
}
