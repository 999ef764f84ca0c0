//! Token classification: one class for each word.

use std::path::Path;

use traind_job_file::{Data, JobFile};
use traind_loader::{LabelEncoder, LabelKind, LabelSpec, TaskSpec};
use traind_models::ModelConfig;

use super::{JobTask, KnownRows, Reading, Scored, labels};
use crate::error::RunResult;
use crate::metrics::{self, ConfusionMatrix, Metrics, Sentence};
use crate::output::{Predictions, charts, number_lists, text_lists};
use crate::step::Readout;

pub(super) struct TokenClassification {
    data: Data,
    kind: LabelKind,
}

impl TokenClassification {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> RunResult<TokenClassification> {
        Ok(TokenClassification { data: job.data.clone(), kind: labels::class_kind(job, config)? })
    }
}

impl JobTask for TokenClassification {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let kind = match reading.encoder {
            Some(encoder) => self.kind.with_encoder(encoder.clone()),
            None => self.kind.clone(),
        };
        let (column, weight) = (self.data.labels.clone(), self.data.weight.clone());
        let ignored = labels::ignored(&self.data);
        let labels = LabelSpec { column, kind, weight, ignored };
        Ok(TaskSpec::TokenClassification(traind_loader::TokenClassification {
            words: self.data.tokens.clone(),
            labels: reading.labelled.then_some(labels),
            label_all_tokens: self.data.label_all_tokens,
        }))
    }

    fn configure(&self, config: &mut ModelConfig, encoder: Option<&LabelEncoder>) {
        labels::configure(config, encoder);
    }

    fn labels(&self, config: &ModelConfig) -> RunResult<Vec<String>> {
        Ok(config.labels()?)
    }

    fn readout(&self) -> Readout {
        Readout::BestClasses
    }

    /// Compares labelled tokens, as `run_ner` does.
    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        let set = scored.set;
        let name = |id: i32| scored.labels.get(id as usize).map_or("", String::as_str);
        let sentences = scored.outputs.rows.iter().enumerate().map(|(row, output)| {
            let labels = set.token_labels(row)?.unwrap_or_default();
            let tokens = labels.iter().zip(&output.classes).filter(|(label, _)| **label >= 0);
            let (labels, predictions) =
                tokens.map(|(&label, &class)| (name(label), name(class))).unzip();
            Ok(Sentence { labels, predictions })
        });
        Ok(metrics::entities(&sentences.collect::<RunResult<Vec<_>>>()?))
    }

    fn metric_names(&self, _rows: &KnownRows<'_>) -> Metrics {
        metrics::entities(&[])
    }

    /// Draws the confusion matrix of the labelled tokens.
    fn write_report(&self, folder: &Path, scored: &Scored<'_>) -> RunResult<()> {
        let set = scored.set;
        let mut matrix = ConfusionMatrix::new(scored.labels.len());
        for (row, output) in scored.outputs.rows.iter().enumerate() {
            let labels = set.token_labels(row)?.unwrap_or_default();
            let tokens = labels.iter().zip(&output.classes).filter(|(label, _)| **label >= 0);
            tokens.for_each(|(&label, &class)| matrix.add(label as usize, class as usize));
        }
        charts::confusion_matrix(folder, &matrix, scored.labels)
    }

    /// Has `prediction`, a label for each word that was not cut off, taken from its first token, and
    /// its `probabilities`.
    fn predictions(&self, scored: &Scored<'_>) -> RunResult<Predictions> {
        let set = scored.set;
        let name = |id: i32| scored.labels.get(id as usize).map_or("", String::as_str);
        let words = (0..set.len()).map(|row| set.first_tokens_of_words(row));
        let words = words.collect::<Result<Vec<_>, _>>()?;
        let rows = || words.iter().zip(&scored.outputs.rows);
        let labels = rows().map(|(words, output)| {
            words.iter().map(|&token| name(output.classes[token])).collect()
        });
        let probabilities =
            rows().map(|(words, output)| words.iter().map(|&token| output.values[token]).collect());
        Ok(Predictions::default()
            .with("prediction", text_lists::<&str>(labels))
            .with("probabilities", number_lists(probabilities)))
    }

    fn pipeline_tag(&self) -> &'static str {
        "token-classification"
    }
}
