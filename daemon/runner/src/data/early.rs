//! Data files that are looked at before a run, and quickly: their columns, and faults on which the run would fail.

use std::fs;
use std::path::{Path, PathBuf};

use traind_job_file::{DataFiles, JobFile};
use traind_loader::{Error as LoaderError, Files, Source, data_format, matching_files};

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

/// The columns of the training files, if these are quickly found and without settings of their own. Files that cannot
/// be read have none: the run says why.
pub(crate) fn train_columns(job: &JobFile) -> Option<Vec<String>> {
    let train = job.data.train.as_ref().filter(|train| train.sets.is_empty())?;
    if !is_quick(train) {
        return None;
    }
    let given = Files { patterns: patterns(train), ..files(job, "train") };
    Source::open(&given).ok().map(|source| source.columns().to_vec())
}

/// Fails where files that are quickly looked at have faults on which the run would fail: an unknown format, missing
/// columns, no rows. Files that are elsewhere, or not there yet, are left to the run.
pub(crate) fn check_files(job: &JobFile, task: &dyn JobTask) -> RunResult<()> {
    check_encoding(job)?;
    let train = job.data.train.as_ref().filter(|_| reads_train(job));
    let validation = job.data.validation.as_ref().filter(|_| job.evaluates());
    let splits = [("train", train), ("validation", validation), ("test", job.data.test.as_ref())];
    for (split, files) in splits {
        let Some(files) = files.filter(|files| is_quick(files)) else { continue };
        let check = |labelled| check_split(job, task, (split, files), labelled);
        match check(true) {
            // Rows to predict need no labels.
            Err(_) if split == "test" && job.train.do_predict => check(false)?,
            checked => checked?,
        }
    }
    Ok(())
}

fn check_split(
    job: &JobFile,
    task: &dyn JobTask,
    (split, given): (&'static str, &DataFiles),
    labelled: bool,
) -> RunResult<()> {
    let evaluated = split != "train" || job.data.validation_split.is_some();
    let reading =
        Reading { encoder: None, labelled, evaluated, files: Some(given), max_length: u32::MAX };
    // Settings that cannot be read are the run's to report.
    let Ok(task) = task.task_spec(&reading) else { return Ok(()) };
    let sets = Sets { job, downloads: None, split, files: files(job, split) };
    let mixture = sets.mixture(given)?;
    match traind_loader::check_files(&mixture, &task) {
        Err(error) if is_of_content(&error) => {
            let problem = with_key(job, &error);
            Err(RunError::Field { name: field(split), value: String::new(), problem })
        }
        Err(error @ LoaderError::BadOption { .. }) => Err(error.into()),
        _ => Ok(()),
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

/// The error, with the key of the job file that names the column that is missing.
fn with_key(job: &JobFile, error: &LoaderError) -> String {
    let LoaderError::MissingColumn { column, .. } = error else { return error.to_string() };
    let data = serde_json::to_value(&job.data).unwrap_or_default();
    match COLUMN_KEYS.iter().find(|key| data[**key] == **column) {
        Some(key) => format!("{error} (data.{key} names the column)"),
        None => error.to_string(),
    }
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

fn patterns(files: &DataFiles) -> Vec<String> {
    files.patterns.iter().map(|path| path_text(path)).collect()
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
    let folder = pattern.parent().filter(|folder| !DataFiles::is_glob(folder))?;
    if fs::read_dir(folder).ok()?.take(ENTRIES_MAX + 1).count() > ENTRIES_MAX {
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
