//! The relevance of passages to a query, which the model reads together. The output is a cross encoder of
//! sentence-transformers.

use std::sync::Arc;

use arrow_array::{Float32Array, StringArray};
use traind_job_file::{JobFile, RerankerLoss};
use traind_loader::{
    LabelEncoder, LabelKind, LabelSpec, Labels, NO_PASSAGE, PairTemplate, RerankerLabel, TaskSpec,
    TokenizedSet,
};
use traind_models::ModelConfig;
use traind_models::cross_encoder::{MessageSettings, ScoreActivation};
use traind_models::sentence::ModelFiles;

use super::sequence_classification::confusion;
use super::{JobTask, KnownRows, PairReading, Reading, Scored, labels};
use crate::error::{RunError, RunResult};
use crate::metrics::{self, ConfusionMatrix, Metrics, Ranked, argmax};
use crate::output::{Predictions, number_lists};
use crate::recipe::rows;
use crate::step::Readout;

pub(super) struct Reranker {
    job: JobFile,
    /// The classes of a model that has several.
    classes: Option<LabelKind>,
    /// The scores of a pair, which are one or a number for each class.
    num_labels: usize,
    activation: ScoreActivation,
    /// The template that renders pairs, and what the model's files say of it.
    template: Option<(PairTemplate, MessageSettings)>,
}

impl Reranker {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> RunResult<Reranker> {
        let classes = match job.reranker.loss {
            RerankerLoss::CrossEntropy => Some(labels::class_kind(job, config)?),
            _ => None,
        };
        let num_labels = match (&classes, job.model.num_labels) {
            (_, Some(count)) => count as usize,
            _ if is_classifier(config) => config.num_labels()?,
            (Some(_), None) => config.num_labels()?,
            (None, None) => 1,
        };
        if classes.is_none() && num_labels > 1 && job.train.do_train {
            let loss = job.reranker.loss;
            return Err(RunError::Field {
                name: "model.num_labels",
                value: num_labels.to_string(),
                problem: format!(
                    "the model has so many labels, and the loss {loss} compares scores: set it to 1"
                ),
            });
        }
        let labels = if classes.is_some() { num_labels.max(2) } else { num_labels };
        let activation = ScoreActivation::of_model(config, labels)?;
        let template = match PairReading::of_model(config)? {
            PairReading::Messages(template, settings) => Some((template, settings)),
            PairReading::Texts | PairReading::Unusable(_) => None,
        };
        Ok(Reranker { job: job.clone(), classes, num_labels, activation, template })
    }

    fn label(&self, reading: &Reading<'_>) -> Option<RerankerLabel> {
        let form = rows::passage_labels(self.job.reranker.loss);
        let kind = match (&self.classes, reading.encoder) {
            (Some(kind), Some(encoder)) => kind.with_encoder(encoder.clone()),
            (Some(kind), None) => kind.clone(),
            // A row has as many numbers as passages.
            (None, _) => LabelKind::Regression { num_labels: 1 },
        };
        let spec = LabelSpec {
            column: self.job.data.label.clone(),
            kind,
            weight: None,
            ignored: labels::ignored(&self.job.data),
        };
        let scale = rows::passage_scale(self.job.reranker.loss);
        reading.labelled.then_some(RerankerLabel { spec, form, scale })
    }

    /// The scores of a row, as sentence-transformers' `predict` returns them.
    fn scores(&self, values: &[f32]) -> Vec<f32> {
        values.iter().map(|logit| self.activation.of(*logit)).collect()
    }

    /// The metrics of rows with `width` labels each.
    fn of_numbers(&self, scored: &Scored<'_>, width: usize, values: &[f32]) -> Metrics {
        let rows = scored.outputs.rows.iter().map(|row| self.scores(&row.values));
        let passages = scored.set.sequences_per_row();
        if passages == 1 {
            let scores: Vec<f32> = rows.flatten().collect();
            return of_pairs(&scores, values);
        }
        let queries = rows.enumerate().map(|(row, scores)| {
            let labels = &values[row * width..(row + 1) * width];
            match self.job.reranker.loss {
                // Margins are those of the first passage.
                RerankerLoss::MarginMse => {
                    let is_relevant = (0..passages).map(|place| place == 0).collect();
                    Ranked { scores, is_relevant }
                }
                _ => ranked(&scores, labels),
            }
        });
        metrics::reranking(&queries.collect::<Vec<_>>())
    }

    /// Fails where rows have fewer or more passages than the loss takes. The loss is computed if `has_loss`.
    fn check_columns(&self, columns: &[String], passages: usize, has_loss: bool) -> RunResult<()> {
        let loss = self.job.reranker.loss;
        let problem = match (columns.len(), loss) {
            (0 | 1, _) => "the rows need a column of queries and one of passages",
            (_, RerankerLoss::CrossEntropy) if passages > 1 => {
                "the loss takes pairs of texts; name two columns"
            }
            _ if loss.compares_passages() && passages < 2 && has_loss => {
                match self.job.reranker.list_size {
                    Some(_) => {
                        "the loss compares the passages of a row, but the second column has texts, not lists of them"
                    }
                    None => {
                        "the loss compares the passages of a row; name several columns of them, or set \
                         reranker.list_size where one column has lists"
                    }
                }
            }
            _ => return Ok(()),
        };
        let value = columns.join(", ");
        Err(RunError::Field { name: "data.texts", value, problem: problem.to_owned() })
    }

    /// The passages that a row has, without what stands for those that its list lacks.
    fn passages(&self, set: &TokenizedSet, row: usize) -> RunResult<usize> {
        let sequences = set.sequences(row)?;
        let is_list = sequences.len() > 1 && set.text_columns().len() == 2;
        let missing = sequences.iter().rev().take_while(|ids| is_list && ids.len() == 1).count();
        Ok(sequences.len() - missing)
    }
}

/// Whether the model folder has the head of a classifier, whose labels are kept.
fn is_classifier(config: &ModelConfig) -> bool {
    config.architecture().is_some_and(|name| name.ends_with("ForSequenceClassification"))
}

/// The metrics of pairs with a label that says whether they are relevant, or of those with a score.
fn of_pairs(scores: &[f32], labels: &[f32]) -> Metrics {
    match labels.iter().all(|label| [0.0, 1.0].contains(label)) {
        true => {
            let is_relevant: Vec<bool> = labels.iter().map(|label| *label > 0.5).collect();
            metrics::relevance(scores, &is_relevant)
        }
        false => metrics::correlation(scores, labels),
    }
}

/// The passages of a row, of which those with a label above 0 are relevant.
fn ranked(scores: &[f32], labels: &[f32]) -> Ranked {
    let real = || scores.iter().zip(labels).filter(|(_, label)| **label > NO_PASSAGE);
    Ranked {
        scores: real().map(|(score, _)| *score).collect(),
        is_relevant: real().map(|(_, label)| *label > 0.0).collect(),
    }
}

impl JobTask for Reranker {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let data = &self.job.data;
        Ok(TaskSpec::Reranker(traind_loader::Reranker {
            texts: data.texts.clone(),
            list_size: self.job.reranker.list_size.map(|size| size as usize),
            label: self.label(reading),
            label_column: data.label.clone(),
            template: self.template.as_ref().map(|(template, _)| template.clone()),
        }))
    }

    fn configure(&self, config: &mut ModelConfig, encoder: Option<&LabelEncoder>) {
        // The loss is the job's.
        config.remove("problem_type");
        match encoder {
            Some(_) => labels::configure(config, encoder),
            None => config.set_num_labels(self.num_labels),
        }
        self.activation.set(config);
    }

    fn labels(&self, config: &ModelConfig) -> RunResult<Vec<String>> {
        match self.classes {
            Some(_) => Ok(config.labels()?),
            None => Ok(Vec::new()),
        }
    }

    /// Fails where rows have fewer or more passages than the loss takes.
    fn check_rows(&self, set: &TokenizedSet) -> RunResult<()> {
        self.check_texts(set.text_columns(), set.sequences_per_row())
    }

    fn check_texts(&self, columns: &[String], sequences: usize) -> RunResult<()> {
        self.check_columns(columns, sequences, self.job.train.do_train)
    }

    fn check_evaluated_texts(&self, columns: &[String], sequences: usize) -> RunResult<()> {
        self.check_columns(columns, sequences, true)
    }

    /// Only this loss is a mean over the pairs of passages of a batch.
    fn loss_depends_on_batches(&self) -> bool {
        self.job.reranker.loss == RerankerLoss::Lambda
    }

    fn readout(&self) -> Readout {
        Readout::Logits
    }

    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        Ok(match scored.set.labels() {
            Labels::Class(ids) => confusion(ids, scored.outputs, scored.labels.len()).metrics(),
            Labels::Numbers { width, values } => self.of_numbers(scored, *width, values),
            _ => Metrics::new(),
        })
    }

    fn metric_names(&self, rows: &KnownRows<'_>) -> Metrics {
        if self.classes.is_some() {
            return ConfusionMatrix::new(rows.classes).metrics();
        }
        let mut names = Metrics::new();
        if rows.sequences != Some(1) {
            names.extend(metrics::reranking(&[]));
        }
        if rows.sequences.is_none_or(|passages| passages == 1) {
            match rows.labels {
                Some(Labels::Numbers { values, .. }) => names.extend(of_pairs(&[], values)),
                _ => {
                    names.extend(metrics::relevance(&[], &[]));
                    names.extend(metrics::correlation(&[1.0], &[1.0]));
                }
            }
        }
        names
    }

    /// Has the `score` of a pair, the `scores` of a row of passages, or `prediction` and the `scores` of classes.
    fn predictions(&self, scored: &Scored<'_>) -> RunResult<Predictions> {
        let outputs = &scored.outputs.rows;
        let predictions = Predictions::default();
        if self.num_labels > 1 || !scored.labels.is_empty() {
            let name = |class: usize| scored.labels.get(class).map_or("", String::as_str);
            let best = outputs.iter().map(|row| name(argmax(&row.values)));
            return Ok(predictions
                .with("prediction", Arc::new(StringArray::from_iter_values(best)))
                .with("scores", number_lists(outputs.iter().map(|row| self.scores(&row.values)))));
        }
        let rows = outputs.iter().map(|row| self.scores(&row.values));
        if scored.set.sequences_per_row() == 1 {
            let scores = Float32Array::from_iter_values(rows.flatten());
            return Ok(predictions.with("score", Arc::new(scores)));
        }
        let lists = rows.enumerate().map(|(row, mut scores)| {
            scores.truncate(self.passages(scored.set, row)?);
            Ok(scores)
        });
        let lists = number_lists(lists.collect::<RunResult<Vec<_>>>()?);
        Ok(predictions.with("scores", lists))
    }

    fn model_files(&self, max_length: u32) -> ModelFiles {
        self.activation.files(max_length, self.template.as_ref().map(|(_, settings)| settings))
    }

    fn library_name(&self) -> Option<&'static str> {
        Some("sentence-transformers")
    }

    fn pipeline_tag(&self) -> &'static str {
        "text-ranking"
    }
}
