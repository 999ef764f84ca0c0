//! The tasks: how rows become examples, what an evaluation reads back from the cores, and the metrics
//! and files that result. A new task is a file here and a line in [`of_job`].
//!
//! Imports `recipe`, `output`, `metrics` and `error`.

mod causal_lm;
mod embedding;
mod image_classification;
mod labels;
mod language_model;
mod layouts;
mod masked_lm;
mod outputs;
mod pairs;
mod preference;
mod question_answering;
mod questions;
mod replaced_tokens;
mod reranker;
mod seq2seq_lm;
mod sequence_classification;
mod sft;
mod token_classification;

use std::path::Path;
use std::sync::Arc;

use traind_job_file::{DataFiles, JobFile, TaskName};
use traind_loader::{
    Augmentation, LabelEncoder, Labels, Masking, TaskSpec, TextTokenizer, TokenizedSet,
};
use traind_models::ModelConfig;
use traind_models::sentence::ModelFiles;

use crate::error::RunResult;
use crate::metrics::Metrics;
use crate::output::Predictions;
use crate::step::Readout;

pub(crate) use embedding::width as embedding_width;
pub(crate) use outputs::{BatchShare, LossDivisor, Outputs, RowOutput, Texts};
pub(crate) use pairs::PairReading;
pub(crate) use questions::Questions;

/// A task with the settings of one job.
pub(crate) trait JobTask: Send + Sync {
    /// How the rows of a split become examples.
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec>;

    /// Sets the labels of the data in the model's config; none where the labels are tokens.
    fn configure(&self, _config: &mut ModelConfig, _encoder: Option<&LabelEncoder>) {}

    /// The names of the classes; empty where rows and words have none.
    fn labels(&self, _config: &ModelConfig) -> RunResult<Vec<String>> {
        Ok(Vec::new())
    }

    /// The default of the length that rows are truncated to.
    fn max_length(&self) -> Option<u32> {
        None
    }

    /// The length that targets are truncated to, where rows have a text to write.
    fn max_target_length(&self) -> Option<u32> {
        None
    }

    /// The number of tokens in every row, where rows are blocks of one length. `max_length` is the limit of tokenizer
    /// and model.
    fn block_size(&self, _max_length: u32) -> Option<u32> {
        None
    }

    /// How tokens are masked; `None` where they are not.
    fn masking(&self, _tokenizer: &dyn TextTokenizer) -> RunResult<Option<Masking>> {
        Ok(None)
    }

    /// Fails where the rows of the training split lack what the job needs.
    fn check_rows(&self, _set: &TokenizedSet) -> RunResult<()> {
        Ok(())
    }

    /// Fails where the columns of texts of the training split, or the sequences that its rows have, are fewer or more
    /// than the loss takes.
    fn check_texts(&self, _columns: &[String], _sequences: usize) -> RunResult<()> {
        Ok(())
    }

    /// Fails where the columns or sequences of rows that are evaluated by a loss of their own are fewer or more than it
    /// takes.
    fn check_evaluated_texts(&self, _columns: &[String], _sequences: usize) -> RunResult<()> {
        Ok(())
    }

    /// How training images are cropped and flipped; `None` where they are not.
    fn augmentation(&self) -> Option<Augmentation> {
        None
    }

    /// Whether the loss of an evaluation depends on which rows share a batch: as the Trainer's, it is
    /// the mean of the batches' mean losses, weighted by their [`BatchShare`].
    fn loss_depends_on_batches(&self) -> bool {
        true
    }

    /// The weight of a batch in the loss of an evaluation.
    fn batch_share(&self) -> BatchShare {
        BatchShare::Rows
    }

    /// The divisor of the sum of the losses of a batch of an evaluation.
    fn loss_divisor(&self) -> LossDivisor {
        LossDivisor::Labels
    }

    /// The results that an evaluation step reads back: for labels that are tokens, how many of them
    /// have the largest logit.
    fn readout(&self) -> Readout {
        Readout::CorrectSum
    }

    /// The metrics that need nothing but the results of an evaluation, without the loss.
    fn output_metrics(&self, _outputs: &Outputs) -> Metrics {
        Metrics::new()
    }

    /// Whether a labelled split has metrics besides the loss.
    fn has_metrics(&self, _set: &TokenizedSet) -> bool {
        true
    }

    /// The metrics of a labelled split, without the loss.
    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        Ok(self.output_metrics(scored.outputs))
    }

    /// The names that [`JobTask::metrics`] returns, with arbitrary values; all that it may return where `rows` leave it
    /// open.
    fn metric_names(&self, _rows: &KnownRows<'_>) -> Metrics {
        self.output_metrics(&Outputs::default())
    }

    /// Writes files about an evaluation besides its metrics.
    fn write_report(&self, _folder: &Path, _scored: &Scored<'_>) -> RunResult<()> {
        Ok(())
    }

    /// The predictions for each row, as columns of `predictions.parquet`.
    fn predictions(&self, _scored: &Scored<'_>) -> RunResult<Predictions> {
        Ok(Predictions::default())
    }

    /// The chat template that the job chose instead of the model's own.
    fn chat_template(&self) -> RunResult<Option<String>> {
        Ok(None)
    }

    /// Files of the model besides config, weights and tokenizer, by their names. `max_length`: the tokens that rows are
    /// cut to.
    fn model_files(&self, _max_length: u32) -> ModelFiles {
        Vec::new()
    }

    /// The library that loads the model, where it is not transformers or PEFT.
    fn library_name(&self) -> Option<&'static str> {
        None
    }

    /// The hub's name of the task.
    fn pipeline_tag(&self) -> &'static str;
}

/// How a split is read.
pub(crate) struct Reading<'a> {
    /// The label ids that the training split assigned.
    pub encoder: Option<&'a LabelEncoder>,
    /// Whether rows have labels.
    pub labelled: bool,
    /// Whether rows are evaluated or predicted on.
    pub evaluated: bool,
    /// The files of the split, where it has any of its own.
    pub files: Option<&'a DataFiles>,
    /// The largest number of tokens in a row.
    pub max_length: u32,
}

/// The rows of an evaluation, as far as they are known before it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KnownRows<'a> {
    /// The number of classes.
    pub classes: usize,
    /// The sequences of a row.
    pub sequences: Option<usize>,
    /// Whether the label of a row is one number.
    pub has_score: Option<bool>,
    /// The labels.
    pub labels: Option<&'a Labels>,
}

impl<'a> KnownRows<'a> {
    /// Describes a split that is read.
    pub(crate) fn of_set(set: &'a TokenizedSet, classes: usize) -> KnownRows<'a> {
        let labels = set.labels();
        KnownRows {
            classes,
            sequences: Some(set.sequences_per_row()),
            has_score: Some(matches!(labels, Labels::Numbers { width: 1, .. })),
            labels: Some(labels),
        }
    }

    /// Describes files whose columns are known.
    pub(crate) fn of_files(spec: &TaskSpec, classes: usize) -> KnownRows<'a> {
        let has_score = match spec {
            TaskSpec::Embedding(task) => Some(task.has_score()),
            _ => None,
        };
        KnownRows { classes, sequences: Some(spec.sequences_per_row()), has_score, labels: None }
    }
}

/// An evaluated split.
pub(crate) struct Scored<'a> {
    pub set: &'a TokenizedSet,
    pub questions: &'a Questions,
    /// The names of the classes.
    pub labels: &'a [String],
    pub outputs: &'a Outputs,
}

/// Returns the task of a job; `config` is that of the model folder.
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
        TaskName::ReplacedTokenDetection => {
            Arc::new(replaced_tokens::ReplacedTokenDetection::new(job))
        }
        TaskName::CausalLm => Arc::new(causal_lm::CausalLm::new(job)),
        TaskName::Sft => Arc::new(sft::Sft::new(job, config)),
        TaskName::Dpo | TaskName::Reward | TaskName::Orpo | TaskName::Cpo | TaskName::Kto => {
            Arc::new(preference::Preference::new(job, config))
        }
        TaskName::Embedding => Arc::new(embedding::Embedding::new(job, config)?),
        TaskName::Reranker => Arc::new(reranker::Reranker::new(job, config)?),
        TaskName::ImageClassification => {
            Arc::new(image_classification::ImageClassification::new(job, config)?)
        }
        TaskName::Seq2SeqLm => Arc::new(seq2seq_lm::Seq2SeqLm::new(job, config)?),
    })
}
