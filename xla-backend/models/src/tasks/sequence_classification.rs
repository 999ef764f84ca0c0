//! One answer a row: a class, several classes, or numbers.
//!
//! B rows, C labels.

use traind_xla::{DType, Tensor};

use super::losses::cross_entropy_of_flags;
use super::problem_type::ProblemType;
use super::sample_weights::{sample_weights, sample_weights_input, weighted};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::model::{Batch, InputDim, InputSpec, InputValues, LossSum};

/// The loss of logits f32[B, C] and the labels it wants.
#[derive(Clone, Debug)]
pub struct SequenceClassification {
    /// The classes, or the numbers to regress on.
    pub num_labels: usize,
    /// The kind of labels.
    pub problem_type: ProblemType,
}

impl SequenceClassification {
    /// Reads the number of labels and their kind.
    pub fn new(config: &ModelConfig) -> Result<SequenceClassification> {
        let task = SequenceClassification {
            num_labels: config.num_labels()?,
            problem_type: ProblemType::of(config)?,
        };
        if task.problem_type == ProblemType::SingleLabel && task.num_labels < 2 {
            let problem = "single_label_classification needs at least 2 labels, found 1";
            return Err(config.error("problem_type", problem));
        }
        Ok(task)
    }

    /// `labels`, and `sample_weights` f32`[B]`: what each row counts for, one where absent.
    pub fn inputs(&self) -> Vec<InputSpec> {
        let one_per_label = [InputDim::Rows, InputDim::Size(self.num_labels)];
        let (dtype, values) = match self.problem_type {
            ProblemType::SingleLabel => (DType::S32, InputValues::Below(self.num_labels)),
            ProblemType::Regression => (DType::F32, InputValues::Finite),
            ProblemType::MultiLabel => (DType::F32, InputValues::Shares),
        };
        let dims = match self.problem_type {
            ProblemType::SingleLabel => &one_per_label[..1],
            ProblemType::Regression if self.num_labels == 1 => &one_per_label[..1],
            ProblemType::Regression | ProblemType::MultiLabel => &one_per_label[..],
        };
        let labels = InputSpec::target("labels", dtype, dims).of_values(values);
        vec![labels, sample_weights_input()]
    }

    /// The loss, where the batch holds labels.
    pub fn loss(&self, logits: &Tensor, batch: &Batch) -> Result<Option<LossSum>> {
        let Some(labels) = batch.optional("labels") else { return Ok(None) };
        let losses = self.row_losses(&logits.convert(DType::F32)?, labels)?;
        weighted(&losses, &sample_weights(batch)?).map(Some)
    }

    /// One loss a row: the mean over its labels, f32[B].
    fn row_losses(&self, logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
        Ok(match self.problem_type {
            ProblemType::SingleLabel => logits.cross_entropy(labels)?,
            ProblemType::Regression => squared_errors(logits, labels)?.mean(&[1])?,
            ProblemType::MultiLabel => cross_entropy_of_flags(logits, labels)?.mean(&[1])?,
        })
    }
}

fn squared_errors(logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let difference = logits.sub(&labels.reshape(logits.dims())?)?;
    Ok(difference.mul(&difference)?)
}
