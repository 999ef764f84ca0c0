//! Data files that are looked at before a run, and quickly: their columns, and faults on which the run would fail.

use std::fs;
use std::path::{Path, PathBuf};

use traind_job_file::{DataFiles, JobFile, ModelSource, TaskName};
use traind_loader::{
    ChatProblem, Checked, Error as LoaderError, Files, HuggingFaceTokenizer, KnownTokenizer,
    LabelEncoder, Mixture, TaskSpec, TokenizerOptions, data_format, matching_files,
    model_max_length,
};
use traind_models::{Model, ModelConfig};

use super::early_rows::EarlyRows;
use super::lengths;
use super::mixture::Sets;
use super::{check_encoding, columns, field, format_options, path_text, reads_train};
use crate::error::{RunError, RunResult};
use crate::tasks::{JobTask, Reading};

/// The most files of a split.
const FILES_MAX: usize = 64;
/// The most bytes of all JSON files of a split, which are read whole for their columns.
const JSON_BYTES_MAX: u64 = 32 << 20;
/// The most entries of a folder that is listed.
const ENTRIES_MAX: usize = 20_000;
/// The most tokens of a row in any job.
const LENGTH_MAX: u32 = 1 << 20;
/// The role of the token that ends texts.
const EOS_TOKEN: &str = "eos_token";

/// Keys of `data` that name a column.
const COLUMN_KEYS: [&str; 19] = [
    "text",
    "text_pair",
    "label",
    "weight",
    "image",
    "tokens",
    "labels",
    "id",
    "question",
    "context",
    "answers",
    "source",
    "target",
    "messages",
    "prompt",
    "completion",
    "chosen",
    "rejected",
    "margin",
];

/// The splits whose files are quickly looked at, each with the task as it reads them.
#[derive(Debug, Default)]
pub(crate) struct EarlySplits {
    pub train: Option<TaskSpec>,
    pub validation: Option<TaskSpec>,
    pub test: Option<TaskSpec>,
    /// Warnings about labels, each with its split.
    pub warnings: Vec<String>,
    /// The lengths of rows.
    pub rows: EarlyRows,
}

impl EarlySplits {
    /// The rows of evaluations during training.
    pub(crate) fn evaluated(&self, job: &JobFile) -> Option<&TaskSpec> {
        match job.data.validation_split {
            Some(_) => self.train.as_ref(),
            None => self.validation.as_ref(),
        }
    }
}

/// The rule of labels that the splits before have, in the order in which the run reads them.
enum EarlyRule {
    /// None where no split makes one.
    Known(Option<LabelEncoder>),
    /// A split makes it that is not read before the run.
    OfRun,
}

/// Fails where files that are quickly looked at have faults on which the run would fail: an unknown format, missing
/// columns, no rows, and rows that no tokenizer could make an example of: the first ones, or all of small files. Files
/// that are elsewhere, or not there yet, are left to the run.
pub(crate) fn check_files(
    job: &JobFile,
    task: &dyn JobTask,
    model: &Model,
) -> RunResult<EarlySplits> {
    check_encoding(job)?;
    let train = job.data.train.as_ref().filter(|_| reads_train(job));
    let validation = job.data.validation.as_ref().filter(|_| job.evaluates());
    let known = known_tokenizer(job, task, model);
    let folder = model.config().path().parent().filter(|_| known.has_template);
    let mut rule = EarlyRule::Known(None);
    let (mut warnings, mut rows) = (Vec::new(), EarlyRows::default());
    let mut early = |split: &'static str, files: Option<&DataFiles>| {
        let Some(files) = files else { return Ok::<_, RunError>(None) };
        let early = EarlySplit { job, split, files, known, folder };
        let checked = match is_quick(files) {
            false => None,
            true => match early.check(task, true, &rule) {
                // Rows to predict need no labels.
                Err(_) if split == "test" && job.train.do_predict => {
                    early.check(task, false, &rule)?
                }
                checked => checked?,
            },
        };
        if let EarlyRule::Known(None) = rule {
            let found = checked.as_ref().and_then(|checked| checked.rule.clone());
            rule = found.map_or(EarlyRule::OfRun, EarlyRule::Known);
        }
        rows.add(checked.as_ref().and_then(|checked| checked.token_lengths));
        let doubtful = checked.iter().flat_map(|checked| &checked.doubtful_labels);
        warnings.extend(doubtful.map(|about| format!("{split} data: {about}")));
        Ok(checked.map(|checked| checked.task))
    };
    // A setting that is wrong for one split is wrong for the others.
    let (train, validation) = (early("train", train)?, early("validation", validation)?);
    let test = early("test", job.data.test.as_ref())?;
    Ok(EarlySplits { train, validation, test, warnings, rows })
}

/// Returns the facts about the tokenizer that bear on rows.
fn known_tokenizer(job: &JobFile, task: &dyn JobTask, model: &Model) -> KnownTokenizer {
    let config = model.config();
    let has_template = has_tokenizer(job, config);
    let limit = lengths::limit(job, task, model.max_positions() as u32);
    let folder = config.path().parent().filter(|_| has_template);
    let own = || folder.and_then(model_max_length);
    let max_length = job.row_length().or_else(own).map_or(limit, |length| length.min(limit));
    let token_limits = lengths::token_limits(job, model.max_positions() as u32);
    KnownTokenizer { has_template, max_length: Some(max_length), token_limits }
}

/// Returns true where the files of the tokenizer, which name special tokens and the chat template, are those of the
/// run.
fn has_tokenizer(job: &JobFile, config: &ModelConfig) -> bool {
    let ModelSource::Folder(_) = job.model.name_or_path else { return false };
    let adds_end = job.model.add_special_tokens.roles().any(|(role, _)| role == EOS_TOKEN);
    let exists = |name: &&str| config.path().with_file_name(*name).exists();
    !adds_end && ["tokenizer_config.json", "tokenizer.json"].iter().any(exists)
}

/// A split that is quickly looked at.
struct EarlySplit<'a> {
    job: &'a JobFile,
    split: &'static str,
    files: &'a DataFiles,
    known: KnownTokenizer,
    /// The folder of the tokenizer, where it is that of the run.
    folder: Option<&'a Path>,
}

impl EarlySplit<'_> {
    /// Returns the task as it reads the files, with its rule; None where the run has to find out more.
    fn check(
        &self,
        task: &dyn JobTask,
        labelled: bool,
        rule: &EarlyRule,
    ) -> RunResult<Option<Checked>> {
        let &EarlySplit { job, split, files: given, known, .. } = self;
        let evaluated = split != "train" || job.data.validation_split.is_some();
        let max_length = known.max_length.unwrap_or(LENGTH_MAX);
        let (encoder, has_rule) = match rule {
            EarlyRule::Known(encoder) => (encoder.as_ref(), true),
            EarlyRule::OfRun => (None, false),
        };
        let reading = Reading { encoder, labelled, evaluated, files: Some(given), max_length };
        let task = match task.task_spec(&reading) {
            Ok(task) => task,
            Err(
                error @ (RunError::Field { .. } | RunError::Data(LoaderError::BadOption { .. })),
            ) => {
                return Err(error);
            }
            Err(RunError::Data(error @ LoaderError::BadTemplate { .. })) if known.has_template => {
                return Err(refused(job, split, &error));
            }
            // Files that cannot be read are the run's to report.
            Err(_) => return Ok(None),
        };
        let sets = Sets { job, downloads: None, split, files: files(job, split) };
        let mixture = sets.mixture(given)?;
        let checked = traind_loader::check_files(&mixture, &task, known, has_rule);
        let checked = checked.and_then(|checked| self.with_examples(&mixture, checked));
        match checked {
            Ok(checked) => Ok(Some(checked)),
            Err(error) if is_of_content(&error) => Err(refused(job, split, &error)),
            Err(error @ LoaderError::BadOption { .. }) => Err(error.into()),
            Err(_) => Ok(None),
        }
    }

    /// Fails where no row makes an example, which their tokens show. All other faults are the run's to report, and so
    /// are these of rows with languages or with tokens that the job adds.
    fn with_examples(&self, mixture: &Mixture, checked: Checked) -> Result<Checked, LoaderError> {
        let &EarlySplit { job, known, folder, .. } = self;
        let is_plain = job.model.new_tokens().next().is_none() && job.data.source_lang.is_none();
        let folder = folder.filter(|_| checked.needs_tokens && is_plain);
        let options = TokenizerOptions { max_length: known.max_length };
        let tokenizer = folder.map(|folder| HuggingFaceTokenizer::open(folder, &options));
        let Some(Ok(tokenizer)) = tokenizer else { return Ok(checked) };
        let limits = known.token_limits;
        match traind_loader::require_example(mixture, &checked.task, &tokenizer, limits) {
            Err(error @ LoaderError::NoRowsLeft { .. }) => Err(error),
            _ => Ok(checked),
        }
    }
}

/// An error about a split as one of the job file.
fn refused(job: &JobFile, split: &str, error: &LoaderError) -> RunError {
    let (name, problem) = (of_error(job, split, error), with_keys(job, error));
    RunError::Field { name, value: String::new(), problem }
}

/// The field of the job file for an error about a split.
fn of_error(job: &JobFile, split: &str, error: &LoaderError) -> &'static str {
    let is_of_template = match error {
        LoaderError::BadTemplate { .. } => true,
        LoaderError::Chat { problem, .. } => {
            matches!(**problem, ChatProblem::NoTemplate | ChatProblem::Template { .. })
        }
        _ => false,
    };
    match (is_of_template, &job.data.chat_template) {
        (true, Some(_)) => "data.chat_template",
        (true, None) => "model.name_or_path",
        (false, _) => field(split),
    }
}

/// Returns true for errors that lie in the files, and that the run would have too.
fn is_of_content(error: &LoaderError) -> bool {
    !matches!(
        error,
        LoaderError::Io { .. }
            | LoaderError::Object { .. }
            | LoaderError::Cache(_)
            | LoaderError::NoMatch { .. }
            | LoaderError::FileChanged { .. }
            | LoaderError::BadOption { .. }
    )
}

/// The error, with the keys of the job file that name the columns that are missing.
fn with_keys(job: &JobFile, error: &LoaderError) -> String {
    let LoaderError::MissingColumns { columns, .. } = error else { return error.to_string() };
    let data = serde_json::to_value(&job.data).unwrap_or_default();
    let key = |column: &String| COLUMN_KEYS.iter().find(|key| data[**key] == **column);
    let keys: Vec<String> =
        columns.iter().filter_map(key).map(|key| format!("data.{key}")).collect();
    let named = match keys.as_slice() {
        [] => error.to_string(),
        [key] => format!("{error} ({key} names the column)"),
        keys => format!("{error} ({} name the columns)", keys.join(", ")),
    };
    named + other_rows(job, error).unwrap_or_default()
}

/// Names the setting that rows with other columns need, or files without a header.
fn other_rows(job: &JobFile, error: &LoaderError) -> Option<&'static str> {
    let LoaderError::MissingColumns { file, columns, available } = error else { return None };
    let has = |name: &str| available.split(", ").any(|column| column == name);
    let is_missing = |name: &str| columns.iter().any(|column| column == name);
    if job.model.task == TaskName::Sft && is_missing(&job.data.text) {
        return Some(match () {
            () if has("instruction") && has("output") => {
                "; `data.format: alpaca` reads instruction, input and output"
            }
            () if has("conversations") => "; `data.format: sharegpt` reads conversations",
            () => {
                "; data.messages names that of conversations, data.prompt and data.completion those of pairs"
            }
        });
    }
    let is_table = matches!(data_format(file), Some("csv" | "tsv"));
    let is_value = |name: &str| name.parse::<f64>().is_ok();
    let is_headless = is_table && job.data.names.is_empty() && available.split(", ").any(is_value);
    is_headless.then_some("; the first row has the names, unless data.names gives them")
}

/// The files of a split, without patterns.
fn files(job: &JobFile, split: &str) -> Files {
    Files {
        split: split.to_owned(),
        columns: columns(&job.data.columns),
        format: format_options(job),
        ..Files::from_iter([])
    }
}

/// Returns true for a few files on this host, those of JSON small.
fn is_quick(files: &DataFiles) -> bool {
    let mut found = Vec::new();
    for pattern in &files.patterns {
        let Some(more) = local_files(pattern) else { return false };
        found.extend(more);
        if found.len() > FILES_MAX {
            return false;
        }
    }
    let is_json = |path: &&PathBuf| matches!(data_format(path), Some("json" | "jsonl"));
    let sizes = found.iter().filter(is_json).filter_map(|path| path.metadata().ok());
    sizes.map(|found| found.len()).sum::<u64>() <= JSON_BYTES_MAX
}

/// The files or folders that a pattern names; `None` where that takes long to find out, or there is none.
fn local_files(pattern: &Path) -> Option<Vec<PathBuf>> {
    if DataFiles::is_url(pattern) {
        return None;
    }
    if pattern.is_file() {
        return Some(vec![pattern.to_owned()]);
    }
    if pattern.is_dir() {
        return is_small(pattern).then(|| vec![pattern.to_owned()]);
    }
    let folder = pattern.parent()?;
    let is_quick = match DataFiles::is_glob(folder) {
        false => fs::read_dir(folder).ok()?.take(ENTRIES_MAX + 1).count() <= ENTRIES_MAX,
        true => is_small(folder.ancestors().find(|above| !DataFiles::is_glob(above))?),
    };
    if !is_quick {
        return None;
    }
    matching_files(&path_text(pattern)).ok()
}

/// Returns true for a folder with few entries in it and in its folders.
fn is_small(folder: &Path) -> bool {
    let (mut folders, mut left) = (vec![folder.to_owned()], ENTRIES_MAX);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Some(fewer) = left.checked_sub(1) else { return false };
            left = fewer;
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(entry.path());
            }
        }
    }
    true
}
