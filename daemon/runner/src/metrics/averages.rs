//! Precision, recall and F1 of several classes, averaged as scikit-learn does. A division by zero
//! gives 0.

use super::Metrics;

/// The counts of one class: right predictions, all predictions, and labels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ClassCounts {
    pub correct: u64,
    pub predicted: u64,
    pub support: u64,
}

type Score = fn(ClassCounts) -> f64;

impl ClassCounts {
    pub(super) fn precision(self) -> f64 {
        ratio(self.correct as f64, self.predicted as f64)
    }

    pub(super) fn recall(self) -> f64 {
        ratio(self.correct as f64, self.support as f64)
    }

    pub(super) fn f1(self) -> f64 {
        ratio(2.0 * self.correct as f64, (self.predicted + self.support) as f64)
    }

    fn plus(self, other: ClassCounts) -> ClassCounts {
        ClassCounts {
            correct: self.correct + other.correct,
            predicted: self.predicted + other.predicted,
            support: self.support + other.support,
        }
    }
}

/// Returns `precision`, `recall` and `f1`, each as `_macro`, `_micro` and `_weighted`.
pub(super) fn averages(classes: &[ClassCounts]) -> Metrics {
    let total = classes.iter().copied().fold(ClassCounts::default(), ClassCounts::plus);
    let scores: [Score; 3] = [ClassCounts::precision, ClassCounts::recall, ClassCounts::f1];
    let mut metrics = Metrics::new();
    for (name, score) in ["precision", "recall", "f1"].into_iter().zip(scores) {
        let sum: f64 = classes.iter().map(|class| score(*class)).sum();
        let weighted: f64 = classes.iter().map(|class| score(*class) * class.support as f64).sum();
        metrics.insert(format!("{name}_macro"), ratio(sum, classes.len() as f64));
        metrics.insert(format!("{name}_micro"), score(total));
        metrics.insert(format!("{name}_weighted"), ratio(weighted, total.support as f64));
    }
    metrics
}

/// Returns `precision`, `recall` and `f1`.
pub(super) fn plain(counts: ClassCounts) -> Metrics {
    Metrics::from([
        ("precision".to_owned(), counts.precision()),
        ("recall".to_owned(), counts.recall()),
        ("f1".to_owned(), counts.f1()),
    ])
}

pub(super) fn ratio(numerator: f64, denominator: f64) -> f64 {
    if denominator == 0.0 { 0.0 } else { numerator / denominator }
}
