//! Columns of training files that are found before a run, and quickly.

use std::path::Path;

use traind_job_file::{DataFiles, JobFile};
use traind_loader::{Files, Source};

use super::{columns, format_options, path_text};

const FILES_MAX: usize = 16;
/// The most bytes of all files, of which those of JSON are read whole for their columns.
const BYTES_MAX: u64 = 32 << 20;

/// The columns of the training files, if these are a few on this host, without settings of their own, and small.
/// Files that cannot be read have none: the run says why.
pub(crate) fn train_columns(job: &JobFile) -> Option<Vec<String>> {
    let train = job.data.train.as_ref().filter(|train| train.sets.is_empty())?;
    let is_plain = |path: &&Path| path.is_file() && !DataFiles::is_url(path);
    let files: Vec<&Path> = train.patterns.iter().map(AsRef::as_ref).filter(is_plain).collect();
    let bytes: u64 = files.iter().filter_map(|path| path.metadata().ok()).map(|it| it.len()).sum();
    if files.len() != train.patterns.len() || files.len() > FILES_MAX || bytes > BYTES_MAX {
        return None;
    }
    let patterns = files.into_iter().map(path_text);
    let given = Files {
        columns: columns(&job.data.columns),
        format: format_options(job),
        ..Files::from_iter(patterns)
    };
    Source::open(&given).ok().map(|source| source.columns().to_vec())
}
