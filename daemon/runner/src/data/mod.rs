//! Prepares the job's tokenized splits. This comes first in a run, since labels, shapes and step
//! counts follow from them.
//!
//! Imports `tasks`, `recipe`, `reporting` and `error`.

mod csv;
mod early;
mod early_rows;
pub(crate) mod later;
mod length_budget;
pub(crate) mod lengths;
mod mixture;
pub(crate) mod predictions;
mod report;
mod tokenize;

use std::path::Path;
use std::sync::Arc;

use traind_job_file::{DataFiles, JobFile, TaskName};
use traind_loader::{
    Columns, DatasetOptions, Encoding, Error as LoaderError, FetchContext, Files, FormatOptions,
    LabelEncoder, LabelProblem, Mixture, OpenSet, Prepared, Source, TaskSpec, TextTokenizer,
    TokenLimits, TokenizedSet,
};
use traind_wording::counted;

use crate::error::{RunError, RunResult};
use crate::recipe::rows;
use crate::reporting::{Downloads, Journal, StepGates, Stop};
use crate::tasks::{JobTask, Questions, Reading};
pub(crate) use early::{EarlySplits, check_files};
pub(crate) use early_rows::EarlyRows;
use later::LaterRows;
pub(crate) use length_budget::{Passes, length_budget};
use mixture::Sets;
use tokenize::Tokenizing;

/// The warning about labels that may be none.
pub(crate) const DOUBTFUL_LABELS: &str = "DOUBTFUL_LABELS";

/// One tokenized split.
#[derive(Clone, Debug)]
pub(crate) struct Split {
    /// `train`, `validation` or `test`.
    pub name: &'static str,
    pub set: Arc<TokenizedSet>,
    /// Whether its rows have labels.
    pub labelled: bool,
    /// The questions of an evaluated split, for question answering; none where rows were tokens.
    pub questions: Arc<Questions>,
}

/// The splits of a job.
#[derive(Debug, Default)]
pub(crate) struct Splits {
    /// `None` where the job does not train.
    pub train: Option<Split>,
    pub validation: Option<Split>,
    pub test: Option<Split>,
    /// `None` where labels are not classes.
    pub encoder: Option<LabelEncoder>,
    /// A hash of the training files.
    pub train_content: Option<String>,
    /// The rest of the training split, where it has only the rows to begin with.
    pub later: Option<LaterRows>,
}

impl Splits {
    /// The split whose steps are planned: the training split. A job that does not train plans no
    /// steps, so any other split will do.
    pub(crate) fn planned(&self) -> RunResult<&Split> {
        let any = self.train.as_ref().or(self.validation.as_ref()).or(self.test.as_ref());
        any.ok_or_else(|| RunError::Field {
            name: "data.train",
            value: String::new(),
            problem: "there are no rows".to_owned(),
        })
    }

    /// The sets of all splits.
    pub(crate) fn sets(&self) -> impl Iterator<Item = &TokenizedSet> {
        let splits = [&self.train, &self.validation, &self.test];
        splits.into_iter().flatten().map(|split| split.set.as_ref())
    }

    /// The split of a name.
    pub(crate) fn named_mut(&mut self, name: &str) -> Option<&mut Split> {
        let splits = [&mut self.train, &mut self.validation, &mut self.test];
        splits.into_iter().flatten().find(|split| split.name == name)
    }

    /// Fails if rows to evaluate or predict on have other sequences than `planned`: the programs for both read as many.
    pub(crate) fn check_sequences(&self, task: TaskName, planned: usize) -> RunResult<()> {
        for Split { name, set, .. } in self.validation.iter().chain(&self.test) {
            let found = set.sequences_per_row();
            check_sequences(task, name, set.text_columns(), found, planned)?;
        }
        Ok(())
    }
}

/// The job, and the handles by which its data are read and reported.
pub(crate) struct DataSource<'a> {
    pub job: &'a JobFile,
    pub cache_dir: &'a Path,
    pub downloads: &'a Downloads,
    pub journal: &'a Journal,
    pub stop: &'a Stop,
    /// Returns the training rows to begin with, by the number of all; `None` for all. Without it, all
    /// rows are tokenized.
    pub first_rows: Option<&'a dyn Fn(usize) -> Option<Vec<u32>>>,
}

/// Reads and tokenizes all splits that the job needs. The training split assigns the ids of
/// labels. Rows have at most `max_length` tokens, and those that are tokenized already at most as many as
/// a model with so many `positions` reads.
pub(crate) fn prepare(
    source: &DataSource<'_>,
    task: &dyn JobTask,
    tokenizer: &Arc<dyn TextTokenizer>,
    max_length: u32,
    positions: u32,
) -> RunResult<Splits> {
    let job = source.job;
    check_encoding(job)?;
    let mut splits = Splits::default();
    let token_limits = lengths::token_limits(job, positions);
    let mut reader = Reader { source, task, tokenizer, max_length, token_limits, encoder: None };
    if let Some(files) = job.data.train.as_ref().filter(|_| reads_train(job)) {
        splits = reader.train(files)?;
        reader.encoder = splits.train.as_ref().and_then(|it| it.set.label_encoder().cloned());
        splits.train.take_if(|_| !job.train.do_train);
    }
    if let Some(files) = job.data.validation.as_ref().filter(|_| job.evaluates()) {
        splits.validation = Some(reader.other("validation", files)?);
    }
    if let Some(files) = &job.data.test {
        splits.test = Some(reader.other("test", files)?);
    }
    splits.encoder = reader.encoder;
    Ok(splits)
}

/// Whether the job needs the training files: to train on, or to split off validation rows.
fn reads_train(job: &JobFile) -> bool {
    job.train.do_train || (job.evaluates() && job.data.validation_split.is_some())
}

/// Reads splits of one job.
struct Reader<'a> {
    source: &'a DataSource<'a>,
    task: &'a dyn JobTask,
    tokenizer: &'a Arc<dyn TextTokenizer>,
    max_length: u32,
    token_limits: TokenLimits,
    encoder: Option<LabelEncoder>,
}

impl Reader<'_> {
    /// Reads the training split, and the validation rows that are split off it.
    fn train(&self, files: &DataFiles) -> RunResult<Splits> {
        let job = self.source.job;
        let fraction = job.data.validation_split.filter(|_| job.evaluates());
        let (options, mixture) = self.options("train", files, true, fraction.is_some())?;
        let open = OpenSet::open_mixture(&options, &mixture, self.tokenizer.as_ref())?;
        let train_content = open.content().map(str::to_owned);
        let Some(fraction) = fraction else {
            return Ok(Splits { train_content, ..self.train_alone(open)? });
        };
        let prepared = self.prepare("train", open)?;
        let (train, validation) = prepared.set.split_validation(fraction, job.data_seed())?;
        let train = split("train", Arc::new(train), true);
        let mut validation = split("validation", Arc::new(validation), true);
        validation.questions = self.questions(&options, &validation.set)?;
        self.report(&train, &prepared)?;
        self.report(&validation, &prepared)?;
        let (train, validation) = (Some(train), Some(validation));
        Ok(Splits { train, validation, train_content, ..Splits::default() })
    }

    /// Reads a training split without validation rows, or the rows to begin with.
    fn train_alone(&self, open: OpenSet) -> RunResult<Splits> {
        let (source, tokenizing) = (self.source, self.tokenizing("train"));
        let first = match source.first_rows.filter(|_| source.job.train.do_train) {
            Some(choose) => tokenizing.preview(&open, self.tokenizer.as_ref(), choose)?,
            None => None,
        };
        let Some(first) = first else {
            let prepared = self.prepare("train", open)?;
            let train = split("train", prepared.set.clone(), true);
            self.report(&train, &prepared)?;
            return Ok(Splits { train: Some(train), ..Splits::default() });
        };
        let first = Arc::new(first);
        source.journal.info("Training begins while the training data are tokenized")?;
        let tokenizer = Arc::clone(self.tokenizer);
        let gates = StepGates::from_environment(&source.job.name);
        let train = Some(split("train", Arc::clone(&first), true));
        let later = Some(LaterRows { tokenizing, gates, open, tokenizer, first });
        Ok(Splits { train, later, ..Splits::default() })
    }

    /// Reads a split to evaluate or predict on.
    fn other(&mut self, name: &'static str, files: &DataFiles) -> RunResult<Split> {
        let labelled = name != "test" || self.has_labels(files)?;
        match self.other_labelled(name, files, labelled) {
            Err(error) if name == "test" && self.predicts() && has_no_label(&error) => {
                self.source.journal.info("The labels of the test data are -1, and so unknown")?;
                self.other_labelled(name, files, false)
            }
            read => read,
        }
    }

    fn other_labelled(
        &mut self,
        name: &'static str,
        files: &DataFiles,
        labelled: bool,
    ) -> RunResult<Split> {
        let (options, mixture) = self.options(name, files, labelled, true)?;
        let open = OpenSet::open_mixture(&options, &mixture, self.tokenizer.as_ref())?;
        let prepared = self.prepare(name, open)?;
        let mut split = split(name, prepared.set.clone(), labelled);
        split.questions = self.questions(&options, &split.set)?;
        self.report(&split, &prepared)?;
        if self.encoder.is_none() {
            self.encoder = split.set.label_encoder().cloned();
        }
        Ok(split)
    }

    /// Whether files to predict have label columns, which are optional there.
    fn has_labels(&self, files: &DataFiles) -> RunResult<bool> {
        if !self.predicts() {
            return Ok(true);
        }
        let (labelled, _) = self.options("test", files, true, true)?;
        let source = Source::open(&labelled.files)?;
        let task = labelled.task.for_columns(source.columns());
        let label = match &task {
            TaskSpec::Embedding(task) => task.label.as_ref().map(|label| &label.spec),
            TaskSpec::Reranker(task) => task.label.as_ref().map(|label| &label.spec),
            _ => {
                let mut wanted = task.columns_among(source.columns()).into_iter();
                return Ok(wanted.all(|name| source.columns().iter().any(|it| it == name)));
            }
        };
        Ok(label.is_some_and(|label| source.columns().contains(&label.column)))
    }

    fn predicts(&self) -> bool {
        self.source.job.train.do_predict
    }

    fn options(
        &self,
        split: &'static str,
        files: &DataFiles,
        labelled: bool,
        evaluated: bool,
    ) -> RunResult<(DatasetOptions, Mixture)> {
        let reading = Reading {
            encoder: self.encoder.as_ref(),
            labelled,
            evaluated,
            files: Some(files),
            max_length: self.max_length,
        };
        let (job, downloads) = (self.source.job, self.source.downloads);
        let cache_dir = Some(self.source.cache_dir.to_owned());
        let plain = Files {
            patterns: Vec::new(),
            split: split.to_owned(),
            columns: columns(&job.data.columns),
            format: format_options(job),
            cache_dir: cache_dir.clone(),
            fetch: FetchContext {
                observer: Some(downloads.observer()),
                locks: downloads.locks().clone(),
                ..FetchContext::default()
            },
        };
        let mixture =
            Sets { job, downloads: Some(downloads), split, files: plain.clone() }.mixture(files)?;
        let files = mixture::first_files(&mixture).cloned().unwrap_or(plain);
        let task = self.task.task_spec(&reading)?;
        Ok((DatasetOptions { files, task, token_limits: self.token_limits, cache_dir }, mixture))
    }

    fn tokenizing(&self, split: &'static str) -> Tokenizing {
        let DataSource { journal, stop, .. } = self.source;
        Tokenizing { split, journal: (*journal).clone(), stop: (*stop).clone() }
    }

    fn prepare(&self, split: &'static str, open: OpenSet) -> RunResult<Prepared> {
        self.tokenizing(split).prepare(open, self.tokenizer.as_ref(), || true)
    }

    fn questions(&self, options: &DatasetOptions, set: &TokenizedSet) -> RunResult<Arc<Questions>> {
        match options.task {
            TaskSpec::QuestionAnswering(_) if !set.is_pretokenized() => {
                Ok(Arc::new(Questions::read(options, set)?))
            }
            _ => Ok(Arc::default()),
        }
    }

    fn report(&self, split: &Split, prepared: &Prepared) -> RunResult<()> {
        self.tokenizing(split.name).report(&split.set, prepared)
    }
}

/// Whether an error is about the label -1, which benchmarks such as GLUE give to rows whose labels they keep
/// secret.
fn has_no_label(error: &RunError) -> bool {
    let RunError::Data(LoaderError::Label { problem, .. }) = error else { return false };
    match problem.as_ref() {
        LabelProblem::Negative { label } => *label == -1,
        LabelProblem::Unseen { label, .. }
        | LabelProblem::NotInMap { label, .. }
        | LabelProblem::NotOfModel { label, .. } => label == "-1",
        _ => false,
    }
}

/// Fails if rows of an evaluated split have other sequences, in the columns `texts`, than planned.
pub(crate) fn check_sequences(
    task: TaskName,
    split: &str,
    texts: &[String],
    found: usize,
    planned: usize,
) -> RunResult<()> {
    if found == planned {
        return Ok(());
    }
    let sequence = if task == TaskName::Reranker { "passage" } else { "text" };
    let problem = format!(
        "rows have {}, and those of data.validation have {planned}; all splits that are evaluated need as many: data.texts \
         names the columns to read of all files",
        counted(found, sequence)
    );
    Err(RunError::Field { name: field(split), value: texts.join(", "), problem })
}

/// The field of the job file for a split's files.
fn field(split: &str) -> &'static str {
    match split {
        "train" => "data.train",
        "validation" => "data.validation",
        _ => "data.test",
    }
}

fn split(name: &'static str, set: Arc<TokenizedSet>, labelled: bool) -> Split {
    Split { name, set, labelled, questions: Arc::default() }
}

fn check_encoding(job: &JobFile) -> RunResult<()> {
    match &job.data.encoding {
        Some(name) if Encoding::of_name(name).is_none() => Err(RunError::Field {
            name: "data.encoding",
            value: name.clone(),
            problem: "there is no such encoding".to_owned(),
        }),
        _ => Ok(()),
    }
}

fn format_options(job: &JobFile) -> FormatOptions {
    let is_causal = job.model.task == TaskName::CausalLm;
    FormatOptions {
        csv: csv::options(&job.data),
        encoding: job.data.encoding.as_deref().and_then(Encoding::of_name),
        keep_linebreaks: job.data.keep_linebreaks.unwrap_or(is_causal),
    }
}

fn columns(asked: &traind_job_file::Columns) -> Columns {
    Columns {
        rename: asked.rename.iter().map(|(from, to)| (from.to_owned(), to.clone())).collect(),
        drop: asked.drop.clone(),
        lists: asked.lists.iter().map(|(name, of)| (name.to_owned(), of.clone())).collect(),
        cast: asked
            .cast
            .iter()
            .map(|(name, kind)| (name.to_owned(), rows::cast_type(*kind)))
            .collect(),
    }
}

fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use traind_loader::Delimiter;

    use super::*;

    #[test]
    fn line_breaks_are_kept_for_causal_models_by_default() {
        let options = |task: &str, more: &str| {
            let yaml = format!(
                "{{name: a, model: {{name_or_path: ./a, task: {task}}}, \
                 data: {{train: a.txt{more}}}, output_dir: out}}"
            );
            format_options(&JobFile::parse(&yaml, Path::new("/")).unwrap().job)
        };
        assert!(options("causal-lm", "").keep_linebreaks);
        assert!(!options("masked-lm", "").keep_linebreaks);
        assert!(!options("causal-lm", ", keep_linebreaks: false").keep_linebreaks);
        let csv = options("causal-lm", ", delimiter: ';', names: [x], quoting: none").csv;
        assert_eq!(csv.delimiter, Some(Delimiter::Byte(b';')));
        assert_eq!((csv.quotechar, csv.header), (None, None));
    }
}
