//! Objectives of preferences, as TRL's trainers compute them. A new objective is a file here, a line below and one in
//! `recipe/preference.rs` of the runner.
//!
//! P rows of the data. Each is a pair of sequences, which are rows of a batch: the chosen one before the rejected one.

mod completions;
mod cpo;
mod dpo;
mod kto;
pub(super) mod metrics;
mod orpo;
mod reward;
mod scalars;

use std::fmt::Debug;

pub use traind_choices::DpoLoss;
use traind_xla::Tensor;
use traind_xla::mesh::Mesh;

use super::sample_weights::sample_weights;
use crate::error::{Error, Result};
use crate::model::{Batch, InputSpec, LossSum};
use crate::tensor_parallel::Logits;
pub use cpo::{Cpo, CpoLoss};
pub use dpo::{Divergence, Dpo};
pub use kto::Kto;
pub use metrics::Metric;
pub use orpo::Orpo;
pub use reward::Reward;
use scalars::{by_pair, column};

/// The objective of rows that are preferences, or of others that have metrics besides their loss.
pub trait PreferenceObjective: Debug + Send + Sync {
    /// The sequences of a row of the data.
    fn sequences(&self) -> usize {
        2
    }

    /// An input of its batches besides those of the model.
    fn input(&self) -> Option<InputSpec> {
        None
    }

    /// The metrics of a batch.
    fn metrics(&self) -> &'static [Metric];

    /// The columns of [`Preferences::metrics`], the first of which are those of [`PreferenceObjective::metrics`].
    fn columns(&self) -> usize {
        self.metrics().len()
    }

    /// The loss and the metrics of this core's rows.
    fn compare(&self, compared: &Compared<'_>) -> Result<Preferences>;
}

/// The results of the models for a core's rows.
#[derive(Clone, Copy, Debug)]
pub struct Compared<'a> {
    /// The logits of the trained model.
    pub policy: &'a Logits,
    /// The logits of the frozen reference, where there is one.
    pub reference: Option<&'a Logits>,
    /// The batch of this core.
    pub batch: &'a Batch,
    /// The cores that share the batch.
    pub mesh: &'a Mesh,
}

impl<'a> Compared<'a> {
    /// The logits of the reference, which the objective must have.
    fn required_reference(&self) -> Result<&'a Logits> {
        let missing = || Error::MissingInput { name: "reference".to_owned() };
        self.reference.ok_or_else(missing)
    }

    /// The weights of the pairs, f32[P]; 0 for empty slots.
    fn pair_weights(&self) -> Result<Tensor> {
        column(&by_pair(&sample_weights(self.batch)?)?, 0)
    }
}

/// The loss and the metrics of a core's rows.
#[derive(Clone, Debug)]
pub struct Preferences {
    /// The loss of all rows.
    pub loss: LossSum,
    /// Columns of values of each row, f32[P, M].
    pub metrics: Tensor,
    /// The weights of the rows, f32`[P]`.
    pub weights: Tensor,
}

impl Preferences {
    /// The sums of the metrics over the rows, f32`[M]`.
    pub fn metric_sums(&self) -> Result<Tensor> {
        Ok(self.metrics.mul(&self.weights.unsqueeze(1)?)?.sum(&[0])?)
    }
}
