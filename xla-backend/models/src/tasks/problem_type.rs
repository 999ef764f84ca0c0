//! The meaning of the labels of a row: a class, several classes, or numbers.
//!
//! B rows, C labels.

use crate::config::ModelConfig;
use crate::error::Result;

const PROBLEM_TYPE: &str = "problem_type";

/// Transformers' `problem_type`, which chooses the loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProblemType {
    /// Cross entropy of labels s32`[B]`.
    SingleLabel,
    /// Squared error of labels f32`[B]` where there is one label, else f32[B, C].
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
