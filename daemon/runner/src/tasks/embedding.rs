//! Embeddings of texts, by whose distances they are compared. The output is a model of sentence-transformers.

use std::path::Path;

use traind_job_file::{self as settings, EmbeddingLoss, JobFile};
use traind_loader::{
    EmbeddedSet, EmbeddingLabel, LabelCount, LabelEncoder, LabelKind, LabelSpec, Labels, TaskSpec,
    TokenizedSet,
};
use traind_models::{Model, ModelConfig, OutputKind, Task, registry, sentence};
use traind_wording::counted_as;

use super::{JobTask, KnownRows, Outputs, Reading, Scored, labels};
use crate::error::{RunError, RunResult};
use crate::metrics::{Embedded, Metrics, retrieval, similarity, triplets};
use crate::output::{Predictions, number_lists};
use crate::recipe::rows;
use crate::step::Readout;

/// The default of the length that rows are truncated to, where the model folder names none.
const MAX_LENGTH: u32 = 512;

pub(super) struct Embedding {
    job: JobFile,
    modules: sentence::SentenceModules,
    /// The width of an embedding.
    width: usize,
}

impl Embedding {
    pub(super) fn new(job: &JobFile, config: &ModelConfig) -> RunResult<Embedding> {
        let folder = config.path().parent().unwrap_or(Path::new("."));
        let mut modules = modules(job, folder)?;
        let build = |modules: &sentence::SentenceModules| {
            let mut config = config.clone();
            config.set_sentence_modules(modules.clone());
            registry::build(config, Task::Embedding)
        };
        if let Some(features) = job.embedding.dense_out_features {
            let pooled = width(&build(&modules)?);
            let activation = job.embedding.dense_activation_function;
            modules.add_dense(pooled, features as usize, activation);
        }
        let model = build(&modules)?;
        Ok(Embedding { job: job.clone(), modules, width: width(&model) })
    }

    /// The label of rows. Where the loss reads none, rows that are evaluated may have a score, for metrics alone.
    fn label(&self, reading: &Reading<'_>) -> Option<EmbeddingLabel> {
        let (settings, texts) = (&self.job.embedding, &self.job.data.texts);
        let is_required = settings.needs_label() && reading.labelled;
        let for_metrics = reading.evaluated && !self.job.train.prediction_loss_only;
        if !is_required && (settings.needs_label() || !for_metrics) {
            return None;
        }
        let numbers = self.numbers(settings, texts.len());
        Some(self.label_of(settings, numbers, is_required))
    }

    /// The label of the sets that are trained on, of which those whose loss reads one have labels of one kind.
    fn label_of_sets(
        &self,
        sets: &[(settings::Embedding, &[String])],
    ) -> RunResult<Option<EmbeddingLabel>> {
        let labelled = sets.iter().filter(|(settings, _)| settings.needs_label());
        let mut numbers =
            labelled.map(|(settings, texts)| (settings, self.numbers(settings, texts.len())));
        let Some((settings, first)) = numbers.next() else { return Ok(None) };
        match numbers.map(|(_, other)| other).find(|other| *other != first) {
            None => Ok(Some(self.label_of(settings, first, true))),
            Some(other) => Err(RunError::Field {
                name: "data.train",
                value: "labels".to_owned(),
                problem: format!(
                    "the losses of its sets read labels of {} and of {} numbers, and all must have as many",
                    first.unwrap_or(1),
                    other.unwrap_or(1)
                ),
            }),
        }
    }

    /// The numbers that a loss reads as the label of a row; none of classes.
    fn numbers(&self, settings: &settings::Embedding, texts: usize) -> Option<usize> {
        match settings.loss {
            EmbeddingLoss::Mse => Some(self.width),
            EmbeddingLoss::MarginMse => Some(texts.max(3) - 2),
            EmbeddingLoss::Gist if !settings.has_guide() => {
                Some(texts * settings.guide_width.unwrap_or(1) as usize)
            }
            EmbeddingLoss::BatchHardTriplet => None,
            _ => Some(1),
        }
    }

    fn label_of(
        &self,
        settings: &settings::Embedding,
        numbers: Option<usize>,
        is_required: bool,
    ) -> EmbeddingLabel {
        let kind = match numbers {
            None => LabelKind::InferNamed { names: Vec::new(), num_labels: None },
            Some(numbers) => LabelKind::Regression { num_labels: numbers as u32 },
        };
        let spec = LabelSpec {
            column: self.job.data.label.clone(),
            kind,
            weight: None,
            ignored: labels::ignored(&self.job.data),
        };
        let has_margins = settings.loss == EmbeddingLoss::MarginMse;
        EmbeddingLabel {
            spec,
            is_required,
            scale: rows::text_scale(settings.loss),
            count: if has_margins { LabelCount::OfNegatives } else { LabelCount::OfKind },
            numbers: description(settings),
        }
    }

    /// Fails where rows have fewer or more texts than the job's loss takes. `have` begins the sentence about them.
    fn check_count(&self, columns: &[String], have: &str) -> RunResult<()> {
        let loss = self.job.embedding.loss;
        if loss.takes(columns.len()) {
            return Ok(());
        }
        let columns_of_texts = counted_as(columns.len(), "column of texts", "columns of texts");
        let others = EmbeddingLoss::ALL.iter().filter(|other| other.takes(columns.len()));
        let others: Vec<String> = others.map(ToString::to_string).collect();
        Err(RunError::Field {
            name: "data.texts",
            value: columns.join(", "),
            problem: format!(
                "{have} {columns_of_texts}, and the loss {loss} needs {}; name those that it takes, or choose a loss \
                 that takes as many: {}",
                loss.needed_texts(),
                others.join(", ")
            ),
        })
    }

    /// Fails where a prompt is that of no column of texts.
    fn check_prompts(&self, columns: &[&String]) -> RunResult<()> {
        let of_no_column = |(column, _): &(&str, &String)| !columns.iter().any(|it| it == column);
        let Some((column, _)) = self.job.data.prompts.iter().find(of_no_column) else {
            return Ok(());
        };
        let columns: Vec<&str> = columns.iter().map(|column| column.as_str()).collect();
        Err(RunError::Field {
            name: "data.prompts",
            value: columns.join(", "),
            problem: format!("{column} is not one of these columns of texts"),
        })
    }

    fn embedded<'a>(&self, scored: &Scored<'a>) -> Embedded<'a> {
        let rows = scored.outputs.rows.iter().map(|row| row.values.as_slice());
        Embedded { rows: rows.collect(), texts: scored.set.sequences_per_row() }
    }
}

impl JobTask for Embedding {
    fn task_spec(&self, reading: &Reading<'_>) -> RunResult<TaskSpec> {
        let data = &self.job.data;
        let prompts = data.prompts.iter();
        // Rows of the training split are not evaluated where batches are mixed.
        let sets = match reading.evaluated {
            true => Vec::new(),
            false => self.job.embedding_sets(),
        };
        let label = match sets.is_empty() {
            true => self.label(reading),
            false => self.label_of_sets(&sets)?,
        };
        let set = |(settings, texts): &(settings::Embedding, &[String])| EmbeddedSet {
            texts: texts.to_vec(),
            has_label: settings.needs_label(),
            scale: rows::text_scale(settings.loss),
        };
        Ok(TaskSpec::Embedding(traind_loader::Embedding {
            texts: data.texts.clone(),
            prompts: prompts.map(|(column, prompt)| (column.to_owned(), prompt.clone())).collect(),
            label,
            sets: sets.iter().map(set).collect(),
            label_column: data.label.clone(),
        }))
    }

    fn configure(&self, config: &mut ModelConfig, _encoder: Option<&LabelEncoder>) {
        config.set_sentence_modules(self.modules.clone());
    }

    fn max_length(&self) -> Option<u32> {
        Some(self.modules.max_seq_length.unwrap_or(MAX_LENGTH))
    }

    /// Fails where rows have fewer or more texts than the loss takes.
    fn check_rows(&self, set: &TokenizedSet) -> RunResult<()> {
        let (of_sets, columns) = (set.texts_of_sets(), set.text_columns());
        if of_sets.is_empty() {
            return self.check_texts(columns, set.sequences_per_row());
        }
        self.check_prompts(&of_sets.into_iter().flatten().chain(columns).collect::<Vec<_>>())
    }

    fn check_texts(&self, columns: &[String], _sequences: usize) -> RunResult<()> {
        if !self.job.only_predicts() {
            self.check_count(columns, "the rows have")?;
        }
        self.check_prompts(&columns.iter().collect::<Vec<_>>())
    }

    fn check_evaluated_texts(&self, columns: &[String], _sequences: usize) -> RunResult<()> {
        self.check_count(columns, "the rows that embedding.loss evaluates have")
    }

    fn readout(&self) -> Readout {
        Readout::Logits
    }

    fn has_metrics(&self, set: &TokenizedSet) -> bool {
        set.sequences_per_row() > 1
    }

    fn metrics(&self, scored: &Scored<'_>) -> RunResult<Metrics> {
        let (set, embedded) = (scored.set, self.embedded(scored));
        if let (Labels::Numbers { width: 1, values }, 2) = (set.labels(), embedded.texts) {
            return Ok(similarity(&embedded, values));
        }
        let ids = (0..set.len()).map(|row| set.sequences(row)).collect::<Result<Vec<_>, _>>()?;
        let mut metrics = retrieval(&embedded, &ids);
        if embedded.texts > 2 {
            metrics.extend(triplets(&embedded));
        }
        Ok(metrics)
    }

    fn metric_names(&self, rows: &KnownRows<'_>) -> Metrics {
        let vector = [1.0, 0.0, 1.0];
        let embedded = Embedded { rows: vec![&vector], texts: 3 };
        let (texts, has_score) = (rows.sequences, rows.has_score);
        let mut metrics = Metrics::new();
        if texts == Some(1) {
            return metrics;
        }
        if texts.is_none_or(|texts| texts == 2) && has_score != Some(false) {
            metrics.extend(similarity(&embedded, &[1.0]));
        }
        if texts != Some(2) || has_score != Some(true) {
            metrics.extend(retrieval(&embedded, &[vec![vec![0], vec![1], vec![2]]]));
        }
        if texts != Some(2) {
            metrics.extend(triplets(&embedded));
        }
        metrics
    }

    /// The embedding of each text, in a column of the text's name.
    fn predictions(&self, scored: &Scored<'_>) -> RunResult<Predictions> {
        let (texts, columns) = (scored.set.sequences_per_row(), scored.set.text_columns());
        let mut predictions = Predictions::default();
        for (text, column) in columns.iter().enumerate() {
            let of_row = |values: &[f32]| {
                let width = values.len() / texts.max(1);
                values[text * width..(text + 1) * width].to_vec()
            };
            let rows = scored.outputs.rows.iter().map(|row| of_row(&row.values));
            predictions = predictions.with(column.clone(), number_lists(rows));
        }
        Ok(predictions)
    }

    fn model_files(&self, max_length: u32) -> sentence::ModelFiles {
        self.modules.files(self.modules.hidden_size(self.width), max_length)
    }

    fn library_name(&self) -> Option<&'static str> {
        Some("sentence-transformers")
    }

    fn pipeline_tag(&self) -> &'static str {
        "sentence-similarity"
    }

    fn output_metrics(&self, _outputs: &Outputs) -> Metrics {
        Metrics::new()
    }
}

/// Describes the numbers of a label with the settings that their count follows from.
fn description(settings: &settings::Embedding) -> &'static str {
    match settings.loss {
        EmbeddingLoss::Gist if !settings.has_guide() => {
            "the guide's vectors of all texts of a row, as many as data.texts names, of embedding.guide_width numbers each"
        }
        EmbeddingLoss::Mse => {
            "a teacher's embedding, as long as the model's own, which embedding.dense_out_features changes"
        }
        EmbeddingLoss::MarginMse => {
            "a margin for each negative: for each column of texts but the first two, which data.texts names"
        }
        _ => "a score",
    }
}

/// The modules of the model folder, with what the job has instead.
fn modules(job: &JobFile, folder: &Path) -> RunResult<sentence::SentenceModules> {
    let mut modules = sentence::SentenceModules::load(folder)?;
    let (own, embedding) = (&job.data.prompts, &job.embedding);
    if let Some(mode) = embedding.pooling_mode {
        modules.pooling = vec![mode];
    }
    if let Some(normalize) = embedding.normalize {
        modules.normalize = normalize;
    }
    if let (Some((column, prompt)), false) = (own.iter().next(), modules.include_prompt) {
        return Err(RunError::Field {
            name: "data.prompts",
            value: format!("{column}: {prompt}"),
            problem:
                "the model's pooling leaves prompts out (include_prompt), which is not supported"
                    .to_owned(),
        });
    }
    check_dense(job, &modules)?;
    for (column, prompt) in own.iter() {
        modules.prompts.insert(column.to_owned(), prompt.clone().into());
    }
    Ok(modules)
}

/// Refuses a second layer behind the pooling, and adapters beside one, which are saved without it.
fn check_dense(job: &JobFile, modules: &sentence::SentenceModules) -> RunResult<()> {
    if modules.dense.is_empty() {
        return Ok(());
    }
    let refused = |name, value: String, problem: &str| {
        Err(RunError::Field { name, value, problem: problem.to_owned() })
    };
    if let Some(features) = job.embedding.dense_out_features {
        let problem = "the model has a dense layer already; leave this out to train that one";
        return refused("embedding.dense_out_features", features.to_string(), problem);
    }
    match job.peft.method {
        Some(method) => refused(
            "peft.method",
            method.to_string(),
            "the model has a dense layer, with which adapters are not supported",
        ),
        None => Ok(()),
    }
}

/// The width of a model's embeddings.
pub(crate) fn width(model: &Model) -> usize {
    match model.output() {
        OutputKind::PerRow { classes } => classes,
        OutputKind::PerToken { .. }
        | OutputKind::NextToken { .. }
        | OutputKind::Span
        | OutputKind::ReplacedTokens => 0,
    }
}
