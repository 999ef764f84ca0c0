//! Single-label classification, from the confusion matrix.

use super::Metrics;
use super::averages::{ClassCounts, averages, plain, ratio};

/// Rows of the matrix are true classes, columns are predicted ones.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ConfusionMatrix {
    classes: usize,
    counts: Vec<u64>,
}

impl ConfusionMatrix {
    pub(crate) fn new(classes: usize) -> ConfusionMatrix {
        ConfusionMatrix { classes, counts: vec![0; classes * classes] }
    }

    /// Counts one row. Both indices are below the number of classes.
    pub(crate) fn add(&mut self, label: usize, predicted: usize) {
        self.counts[label * self.classes + predicted] += 1;
    }

    /// Returns `accuracy`, `matthews_correlation`, the averages of [`averages`], and `precision`,
    /// `recall` and `f1`: those of class 1 where there are two classes, else the `_macro` averages.
    ///
    /// As in scikit-learn, averages include only classes that occur as a label or a prediction.
    pub(crate) fn metrics(&self) -> Metrics {
        let classes: Vec<ClassCounts> = (0..self.classes).map(|class| self.class(class)).collect();
        let occurs = |class: &&ClassCounts| class.support + class.predicted > 0;
        let present: Vec<ClassCounts> = classes.iter().filter(occurs).copied().collect();
        let mut metrics = averages(&present);
        match classes[..] {
            [_, positive] => metrics.extend(plain(positive)),
            _ => metrics.extend(["precision", "recall", "f1"].map(|name| {
                let macro_average = metrics[&format!("{name}_macro")];
                (name.to_owned(), macro_average)
            })),
        }
        let correct: u64 = classes.iter().map(|class| class.correct).sum();
        metrics.insert("accuracy".to_owned(), ratio(correct as f64, self.rows()));
        metrics.insert("matthews_correlation".to_owned(), self.matthews(&classes));
        metrics
    }

    pub(crate) fn count(&self, label: usize, predicted: usize) -> u64 {
        self.counts[label * self.classes + predicted]
    }

    fn class(&self, class: usize) -> ClassCounts {
        ClassCounts {
            correct: self.count(class, class),
            predicted: (0..self.classes).map(|label| self.count(label, class)).sum(),
            support: (0..self.classes).map(|predicted| self.count(class, predicted)).sum(),
        }
    }

    fn rows(&self) -> f64 {
        self.counts.iter().sum::<u64>() as f64
    }

    /// The correlation of labels and predictions (Gorodkin, 2004); 0 where either is constant.
    fn matthews(&self, classes: &[ClassCounts]) -> f64 {
        let rows = self.rows();
        let sum = |value: fn(&ClassCounts) -> f64| classes.iter().map(value).sum::<f64>();
        let correct = sum(|class| class.correct as f64);
        let both = sum(|class| class.predicted as f64 * class.support as f64);
        let predicted = sum(|class| (class.predicted as f64).powi(2));
        let support = sum(|class| (class.support as f64).powi(2));
        let variance = (rows * rows - predicted) * (rows * rows - support);
        ratio(correct * rows - both, variance.sqrt())
    }
}

/// The index of the largest value, and of the first among equals, as NumPy's `argmax`.
pub(crate) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}
