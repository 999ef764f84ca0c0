//! Single-label classification: accuracy and F1 from the confusion matrix.

use super::Metrics;

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

    /// `accuracy`, `f1_macro` and `f1_weighted`.
    ///
    /// As in scikit-learn, F1 averages over the classes that occur as a label
    /// or as a prediction, and a class that is never both has an F1 of 0.
    pub(crate) fn metrics(&self) -> Metrics {
        let correct: u64 = (0..self.classes).map(|class| self.count(class, class)).sum();
        let present: Vec<usize> = (0..self.classes)
            .filter(|&class| self.support(class) + self.predicted(class) > 0)
            .collect();
        let macro_sum: f64 = present.iter().map(|&class| self.f1(class)).sum();
        let weighted_sum: f64 =
            present.iter().map(|&class| self.f1(class) * self.support(class) as f64).sum();
        let rows = self.counts.iter().sum::<u64>() as f64;
        Metrics::from([
            ("accuracy".to_owned(), correct as f64 / rows),
            ("f1_macro".to_owned(), macro_sum / present.len() as f64),
            ("f1_weighted".to_owned(), weighted_sum / rows),
        ])
    }

    fn count(&self, label: usize, predicted: usize) -> u64 {
        self.counts[label * self.classes + predicted]
    }

    fn support(&self, class: usize) -> u64 {
        (0..self.classes).map(|predicted| self.count(class, predicted)).sum()
    }

    fn predicted(&self, class: usize) -> u64 {
        (0..self.classes).map(|label| self.count(label, class)).sum()
    }

    fn f1(&self, class: usize) -> f64 {
        let both = (self.support(class) + self.predicted(class)) as f64;
        2.0 * self.count(class, class) as f64 / both
    }
}

/// Index of the largest value, the first of equals, as NumPy's `argmax`.
pub(crate) fn argmax(values: &[f32]) -> usize {
    let mut best = 0;
    for (index, value) in values.iter().enumerate() {
        if *value > values[best] {
            best = index;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `expect` is scikit-learn's accuracy_score, f1_score(average="macro")
    /// and f1_score(average="weighted") on the same lists.
    fn check(labels: &[usize], predictions: &[usize], expect: [f64; 3]) {
        let mut matrix = ConfusionMatrix::new(4);
        for (&label, &prediction) in labels.iter().zip(predictions) {
            matrix.add(label, prediction);
        }
        let metrics = matrix.metrics();
        for (name, expected) in ["accuracy", "f1_macro", "f1_weighted"].iter().zip(expect) {
            let got = metrics[*name];
            assert!((got - expected).abs() < 1e-12, "{name}: {got}, expected {expected}");
        }
    }

    #[test]
    fn equals_scikit_learn() {
        check(&[0, 1, 2, 3], &[0, 1, 2, 3], [1.0, 1.0, 1.0]);
        // Class 3 occurs nowhere and is left out of the averages.
        check(&[0, 0, 1, 2], &[0, 1, 1, 2], [0.75, 7.0 / 9.0, 0.75]);
        // Class 2 is only predicted: its F1 of 0 counts in the macro average.
        check(&[0, 0, 1], &[0, 2, 1], [2.0 / 3.0, 5.0 / 9.0, 7.0 / 9.0]);
    }

    #[test]
    fn argmax_takes_the_first_of_equals() {
        assert_eq!(argmax(&[0.0, 2.0, 2.0, -1.0]), 1);
    }
}
