//! One answer a row: a class, several classes, or numbers.
//!
//! B rows, C labels.

use traind_xla::{DType, Tensor};

use super::losses::binary_cross_entropy;
use super::sample_weights::{sample_weights, sample_weights_input, weighted};
use crate::config::ModelConfig;
use crate::error::Result;
use crate::model::{Batch, InputDim, InputSpec, LossSum};

const PROBLEM_TYPE: &str = "problem_type";

/// Transformers' `problem_type`, which chooses the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemType {
    /// Cross entropy of labels s32[B].
    SingleLabel,
    /// Squared error of labels f32[B] where there is one label, else f32[B, C].
    Regression,
    /// Binary cross entropy of labels f32[B, C], zero or one.
    MultiLabel,
}

impl ProblemType {
    /// All types.
    pub const ALL: [ProblemType; 3] =
        [ProblemType::SingleLabel, ProblemType::Regression, ProblemType::MultiLabel];

    /// Returns the name in `config.json`.
    pub fn name(self) -> &'static str {
        match self {
            ProblemType::SingleLabel => "single_label_classification",
            ProblemType::Regression => "regression",
            ProblemType::MultiLabel => "multi_label_classification",
        }
    }

    /// The problem type with one of transformers' names.
    pub fn from_name(name: &str) -> Option<ProblemType> {
        ProblemType::ALL.into_iter().find(|problem| problem.name() == name)
    }

    /// Reads `problem_type` of a config. Without the key, one label is a number and several
    /// are classes.
    pub fn of(config: &ModelConfig) -> Result<ProblemType> {
        match config.optional_string(PROBLEM_TYPE)? {
            Some(name) => ProblemType::from_name(name).ok_or_else(|| {
                let known = ProblemType::ALL.map(ProblemType::name).join(", ");
                config.error(PROBLEM_TYPE, format!("expected one of {known}, found {name}"))
            }),
            None if config.num_labels()? == 1 => Ok(ProblemType::Regression),
            None => Ok(ProblemType::SingleLabel),
        }
    }

    /// Writes it into a config.
    pub fn set(self, config: &mut ModelConfig) {
        config.set(PROBLEM_TYPE, self.name());
    }
}

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

    /// `labels`, and `sample_weights` f32[B]: what each row counts for, one where absent.
    pub fn inputs(&self) -> Vec<InputSpec> {
        let one_per_label = [InputDim::Rows, InputDim::Size(self.num_labels)];
        let (dtype, dims) = match self.problem_type {
            ProblemType::SingleLabel => (DType::S32, &one_per_label[..1]),
            ProblemType::Regression if self.num_labels == 1 => (DType::F32, &one_per_label[..1]),
            ProblemType::Regression | ProblemType::MultiLabel => (DType::F32, &one_per_label[..]),
        };
        vec![InputSpec::target("labels", dtype, dims), sample_weights_input()]
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
            ProblemType::MultiLabel => {
                binary_cross_entropy::of_flags(logits, labels)?.mean(&[1])?
            }
        })
    }
}

fn squared_errors(logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
    let difference = logits.sub(&labels.reshape(logits.dims())?)?;
    Ok(difference.mul(&difference)?)
}
