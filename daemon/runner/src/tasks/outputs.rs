//! The results of an evaluation.

use crate::step::RowOutput;

#[derive(Clone, Debug, Default)]
pub(crate) struct Outputs {
    /// In dataset order.
    pub rows: Vec<RowOutput>,
    pub loss_sum: f64,
    /// The number of labelled rows or tokens; 0 in a split without labels.
    pub weight_sum: f64,
    /// The number of labels with the largest logit, where the task counts them.
    pub correct_sum: f64,
}

impl Outputs {
    /// The mean loss; `None` without labels.
    pub(crate) fn loss(&self) -> Option<f64> {
        (self.weight_sum > 0.0).then(|| self.loss_sum / self.weight_sum)
    }

    /// The values of all rows, concatenated.
    pub(crate) fn values(&self) -> Vec<f32> {
        self.rows.iter().flat_map(|row| row.values.iter().copied()).collect()
    }
}
