//! Sequence classification: one class, several classes or numbers for each text or pair of texts.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{Float32Array, StringArray};
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use traind_job_file::{Data, JobFile};
use traind_loader::{LabelEncoder, LabelKind, LabelSpec, Labels, TaskSpec};
use traind_models::ModelConfig;
use traind_models::tasks::ProblemType;

use super::{JobTask, KnownRows, Outputs, Reading, Scored, labels};
use crate::error::RunResult;
use crate::metrics::{self, ConfusionMatrix, Metrics, argmax};
use crate::output::{self, Predictions, charts, failed, number_lists, text_lists};
use crate::recipe;
use crate::step::Readout;

pub(super) struct SequenceClassification {
    data: Data,
    problem_type: ProblemType,
    kind: LabelKind,
}

impl SequenceClassification {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> RunResult<SequenceClassification> {
        let problem_type = problem_type(job, config)?;
        let kind = match problem_type {
            ProblemType::Regression => LabelKind::Regression { num_labels: width(job, config)? },
            ProblemType::SingleLabel => labels::class_kind(job, config)?,
            ProblemType::MultiLabel => multi_label(job, labels::class_kind(job, config)?),
        };
        Ok(SequenceClassification { data: job.data.clone(), problem_type, kind })
    }

    /// The column of labels of a split; `None` where rows have none.
    pub(super) fn label(&self, reading: &Reading<'_>) -> Option<LabelSpec> {
        let kind = match reading.encoder {
            Some(encoder) => self.kind.with_encoder(encoder.clone()),
            None => self.kind.clone(),
        };
        let (column, weight) = (self.data.label.clone(), self.data.weight.clone());
        let ignored = labels::ignored(&self.data);
        reading.labelled.then_some(LabelSpec { column, kind, weight, ignored })
    }
}

/// The job's problem type, else the config's. One label means regression.
fn problem_type(job: &JobFile, config: &ModelConfig) -> RunResult<ProblemType> {
    if let Some(name) = job.model.problem_type {
        return Ok(recipe::problem_type(name));
    }
    if job.model.num_labels == Some(1) {
        return Ok(ProblemType::Regression);
    }
    Ok(ProblemType::of(config)?)
}

/// The numbers in each row: the job's, those of a config made for regression, else one.
fn width(job: &JobFile, config: &ModelConfig) -> RunResult<u32> {
    Ok(match job.model.num_labels {
        Some(num_labels) => num_labels,
        None if ProblemType::of(config)? == ProblemType::Regression => config.num_labels()? as u32,
        None => 1,
    })
}

/// The same class ids for lists of labels.
fn multi_label(job: &JobFile, kind: LabelKind) -> LabelKind {
    let format = job.data.label_format.map(recipe::rows::label_format);
    let (encoder, names, num_labels) = match kind {
        LabelKind::Infer { num_labels } => (None, Vec::new(), num_labels),
        LabelKind::InferNamed { names, num_labels } => (None, names, num_labels),
        LabelKind::Encoder(encoder) => (Some(encoder), Vec::new(), None),
        other => return other,
    };
    LabelKind::MultiLabel { encoder, names, num_labels, format }
}

impl JobTask for SequenceClassification {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        Ok(TaskSpec::SequenceClassification(traind_loader::SequenceClassification {
            text: self.data.text.clone(),
            text_pair: self.data.text_pair.clone(),
            label: self.label(reading),
        }))
    }

    fn configure(&self, config: &mut ModelConfig, encoder: Option<&LabelEncoder>) {
        labels::configure(config, encoder);
        if let LabelKind::Regression { num_labels } = self.kind {
            config.set_num_labels(num_labels as usize);
        }
        // transformers leaves out the default.
        if self.problem_type != ProblemType::SingleLabel {
            self.problem_type.set(config);
        }
    }

    fn labels(&self, config: &ModelConfig) -> RunResult<Vec<String>> {
        match self.problem_type {
            ProblemType::Regression => Ok(Vec::new()),
            ProblemType::SingleLabel | ProblemType::MultiLabel => Ok(config.labels()?),
        }
    }

    /// Every row has one label, or one number per class.
    fn loss_depends_on_batches(&self) -> bool {
        false
    }

    fn readout(&self) -> Readout {
        Readout::Logits
    }

    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        let outputs = scored.outputs;
        Ok(match scored.set.labels() {
            Labels::Class(ids) => confusion(ids, outputs, scored.labels.len()).metrics(),
            Labels::Numbers { width, values } => {
                metrics::regression(*width, values, &outputs.values())
            }
            Labels::MultiLabel(labels) => {
                metrics::multi_label(labels.classes, &labels.all_hot(), &outputs.values())
            }
            _ => Metrics::new(),
        })
    }

    fn metric_names(&self, rows: &KnownRows<'_>) -> Metrics {
        let classes = rows.classes;
        match self.problem_type {
            ProblemType::Regression => metrics::regression(1, &[], &[]),
            ProblemType::SingleLabel => ConfusionMatrix::new(classes).metrics(),
            ProblemType::MultiLabel => metrics::multi_label(classes, &[], &[]),
        }
    }

    fn write_report(&self, folder: &Path, scored: &Scored<'_>) -> RunResult<()> {
        if let Labels::Class(ids) = scored.set.labels() {
            let matrix = confusion(ids, scored.outputs, scored.labels.len());
            charts::confusion_matrix(folder, &matrix, scored.labels)?;
        }
        write_logits(folder, scored.outputs)
    }

    /// Has `prediction` and, where there are classes, the `probabilities` of all in order of their
    /// ids.
    fn predictions(&self, scored: &Scored<'_>) -> RunResult<Predictions> {
        let rows = || scored.outputs.rows.iter().map(|row| row.values.as_slice());
        let name = |class: usize| scored.labels.get(class).map_or("", String::as_str);
        let predictions = Predictions::default();
        Ok(match self.problem_type {
            ProblemType::Regression if rows().all(|logits| logits.len() == 1) => {
                let numbers = Float32Array::from_iter_values(rows().map(|logits| logits[0]));
                predictions.with("prediction", Arc::new(numbers))
            }
            ProblemType::Regression => {
                predictions.with("prediction", number_lists(rows().map(<[f32]>::to_vec)))
            }
            ProblemType::SingleLabel => {
                let best = rows().map(|logits| name(argmax(logits)));
                predictions
                    .with("prediction", Arc::new(StringArray::from_iter_values(best)))
                    .with("probabilities", number_lists(rows().map(softmax)))
            }
            ProblemType::MultiLabel => {
                let applies = rows().map(|logits| {
                    let classes = logits.iter().enumerate().filter(|(_, logit)| **logit > 0.0);
                    classes.map(|(class, _)| name(class)).collect()
                });
                let sigmoids = rows().map(|logits| logits.iter().copied().map(sigmoid).collect());
                predictions
                    .with("prediction", text_lists::<&str>(applies))
                    .with("probabilities", number_lists(sigmoids))
            }
        })
    }

    fn pipeline_tag(&self) -> &'static str {
        "text-classification"
    }
}

/// How often rows of each class are predicted to be of each.
pub(super) fn confusion(labels: &[i32], outputs: &Outputs, classes: usize) -> ConfusionMatrix {
    let mut matrix = ConfusionMatrix::new(classes);
    for (&label, row) in labels.iter().zip(&outputs.rows) {
        matrix.add(label as usize, argmax(&row.values));
    }
    matrix
}

fn softmax(logits: &[f32]) -> Vec<f32> {
    let largest = logits.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let powers: Vec<f64> = logits.iter().map(|logit| f64::from(logit - largest).exp()).collect();
    let sum: f64 = powers.iter().sum();
    powers.iter().map(|power| (power / sum) as f32).collect()
}

fn sigmoid(logit: f32) -> f32 {
    (1.0 / (1.0 + f64::from(-logit).exp())) as f32
}

/// Writes `eval_logits.safetensors`, the logits in dataset order, from which other metrics can be
/// computed.
fn write_logits(folder: &Path, outputs: &Outputs) -> RunResult<()> {
    let rows = outputs.rows.len();
    let values = outputs.values();
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let path = folder.join("eval_logits.safetensors");
    let invalid = |error| failed("serialize", &path)(std::io::Error::other(error));
    let logits = TensorView::new(Dtype::F32, vec![rows, values.len() / rows], &bytes);
    let tensors = [("logits", logits.map_err(invalid)?)];
    output::write(&path, &safetensors::serialize(tensors, None).map_err(invalid)?)
}
