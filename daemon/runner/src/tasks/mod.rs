//! What a job's task means to the runner: the examples that rows become, what an
//! evaluation reads back from the cores, and the metrics and files that follow from
//! it. A new task is a file here and a line in [`of_job`].
//!
//! Imports `step`, `output`, `metrics` and `error`.

mod causal_lm;
mod labels;
mod language_model;
mod masked_lm;
mod question_answering;
mod sequence_classification;
mod token_classification;

use std::path::Path;
use std::sync::Arc;

use traind_job_file::{JobFile, TaskName};
use traind_loader::{LabelEncoder, Masking, TaskSpec, TextTokenizer};
use traind_models::ModelConfig;

use crate::data::Split;
use crate::error::{RunError, RunResult};
use crate::evaluation::Outputs;
use crate::metrics::Metrics;
use crate::output::Predictions;
use crate::step::Readout;

/// A task with the settings of one job.
pub(crate) trait JobTask: Send + Sync {
    /// The examples that the rows of a split become.
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec>;

    /// Tells the model's config of the labels that the data have.
    fn configure(&self, config: &mut ModelConfig, encoder: Option<&LabelEncoder>);

    /// The names of the classes, where rows or words have classes.
    fn labels(&self, _config: &ModelConfig) -> RunResult<Vec<String>> {
        Ok(Vec::new())
    }

    /// Tokens that rows are cut to where the job does not say.
    fn max_length(&self) -> Option<u32> {
        None
    }

    /// Tokens of every row, where rows are blocks of one length; `max_length` is what
    /// the tokenizer and the model can take.
    fn block_size(&self, _max_length: u32) -> Option<u32> {
        None
    }

    /// How tokens are masked, where they are.
    fn masking(&self, _tokenizer: &dyn TextTokenizer) -> RunResult<Option<Masking>> {
        Ok(None)
    }

    /// Whether the loss of a row depends on how far it is padded.
    fn loss_counts_padding(&self) -> bool {
        false
    }

    /// What an evaluation step reads back.
    fn readout(&self) -> Readout;

    /// The metrics of a labelled split, the loss apart.
    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics>;

    /// The metrics that an evaluation gives, the loss apart, with values of no meaning.
    fn metric_names(&self, classes: usize) -> Metrics;

    /// Writes what is worth keeping of an evaluation besides its metrics.
    fn write_report(&self, _folder: &Path, _scored: &Scored<'_>) -> RunResult<()> {
        Ok(())
    }

    /// What the model makes of each row, as columns of `predictions.parquet`.
    fn predictions(&self, _scored: &Scored<'_>) -> RunResult<Predictions> {
        Ok(Predictions::default())
    }

    /// What the hub calls the task.
    fn pipeline_tag(&self) -> &'static str;
}

/// How a split is read.
pub(crate) struct Reading<'a> {
    /// The ids that the training split gave its labels.
    pub encoder: Option<&'a LabelEncoder>,
    /// Whether rows have labels.
    pub labelled: bool,
    /// Whether results will be turned back into text.
    pub evaluated: bool,
    /// The most tokens of a row.
    pub max_length: u32,
}

/// An evaluated split.
pub(crate) struct Scored<'a> {
    pub split: &'a Split,
    /// The names of the classes.
    pub labels: &'a [String],
    pub outputs: &'a Outputs,
}

/// The task of a job; `config` is that of the model folder.
pub(crate) fn of_job(job: &JobFile, config: &ModelConfig) -> RunResult<Arc<dyn JobTask>> {
    Ok(match job.model.task {
        TaskName::SequenceClassification => {
            Arc::new(sequence_classification::SequenceClassification::new(job, config)?)
        }
        TaskName::TokenClassification => {
            Arc::new(token_classification::TokenClassification::new(job, config)?)
        }
        TaskName::QuestionAnswering => Arc::new(question_answering::QuestionAnswering::new(job)),
        TaskName::MaskedLm => Arc::new(masked_lm::MaskedLm::new(job)),
        TaskName::CausalLm => Arc::new(causal_lm::CausalLm::new(job)),
        TaskName::Seq2SeqLm => {
            return Err(RunError::Field {
                name: "model.task",
                value: job.model.task.to_string(),
                problem: "no such task is implemented".to_owned(),
            });
        }
    })
}
