//! The opened files of a mixture.

use std::path::Path;

use super::super::left_out::LeftOutRows;
use super::{Mixing, Mixture, SplitRange};
use crate::error::{Error, Result};
use crate::source::{Row, Source};
use crate::tasks::{KnownTokenizer, LackingRows, TaskSpec};

/// The most rows without a text that are read to find one that has its texts.
const LACKING_ROWS_MAX: u64 = 100_000;

/// The opened files of all sets.
pub(in crate::dataset) struct Sources {
    pub(super) parts: Vec<SourcePart>,
    pub(super) mixture: Mixture,
    /// The number of rows of each file, in order, where the order of rows depends on it.
    pub(in crate::dataset) counts: Option<Vec<u64>>,
}

/// The opened files of a part of a set.
pub(in crate::dataset) struct SourcePart {
    pub(in crate::dataset) source: Source,
    pub(in crate::dataset) set: usize,
    /// The number of its first file among those of all parts.
    pub(in crate::dataset) first_file: usize,
    pub(super) range: SplitRange,
}

impl Sources {
    /// Opens the files and checks that they have the columns of `task`, which is returned as it reads
    /// files with the columns of the first, of all sets or of each.
    pub(in crate::dataset) fn open(mixture: &Mixture, task: &TaskSpec) -> Result<(Self, TaskSpec)> {
        let (parts, task) = open_parts(mixture, task)?;
        let is_plain = mixture.mixing == Mixing::Concatenate
            && parts.iter().all(|part| !part.range.needs_count());
        let counts = match is_plain {
            true => None,
            false => {
                Some(parts.iter().map(SourcePart::count).collect::<Result<Vec<_>>>()?.concat())
            }
        };
        Ok((Self { parts, mixture: mixture.clone(), counts }, task))
    }

    /// Opens the files as [`Self::open`] does, and finds files without any row, or with none that has its texts, and
    /// first rows that cannot become an example. Reads no more than the first rows that have theirs.
    pub(in crate::dataset) fn check(
        mixture: &Mixture,
        task: &TaskSpec,
        known: KnownTokenizer,
    ) -> Result<TaskSpec> {
        let (parts, task) = open_parts(mixture, task)?;
        let files = || {
            let files = parts.iter().flat_map(|part| part.source.files());
            files.map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
        };
        if !parts.iter().any(|part| part.source.may_have_rows()) {
            return Err(Error::NoRows { files: files() });
        }
        if task.rows_to_check(known) == 0 {
            return Ok(task);
        }
        task.check_settings(known)?;
        let (mut lacking, mut rows) = (LackingRows::default(), Some(0));
        for part in &parts {
            let left_out = match part.range.is_whole() {
                true => part.check_first_rows(&task, known, &mut lacking)?,
                false => None,
            };
            rows = rows.zip(left_out).map(|(rows, left_out)| rows + left_out);
        }
        match rows {
            Some(rows) if rows > 0 => {
                let why = LeftOutRows::default().why_all(rows, &lacking);
                Err(Error::NoRowsLeft { files: files(), rows, why })
            }
            _ => Ok(task),
        }
    }

    /// The only source, where all its rows are read in order.
    pub(in crate::dataset) fn plain(&self) -> Option<&Source> {
        match self.parts.as_slice() {
            [part] if part.range.is_whole() && self.mixture.sets[0].limit.is_none() => {
                (self.mixture.mixing == Mixing::Concatenate).then_some(&part.source)
            }
            _ => None,
        }
    }

    pub(in crate::dataset) fn part(&self, number: usize) -> &SourcePart {
        &self.parts[number]
    }

    /// The files of all parts, by the names that users know.
    pub(in crate::dataset) fn files(&self) -> impl Iterator<Item = &Path> {
        self.parts.iter().flat_map(|part| part.source.files())
    }

    /// The set of each file.
    pub(in crate::dataset) fn sets_of_files(&self) -> impl Iterator<Item = usize> {
        self.parts.iter().flat_map(|part| part.source.files().map(|_| part.set))
    }

    /// The number of files of each part.
    pub(in crate::dataset) fn file_counts(&self) -> Vec<usize> {
        self.parts.iter().map(|part| part.source.files().len()).collect()
    }

    pub(in crate::dataset) fn mixture(&self) -> &Mixture {
        &self.mixture
    }

    /// The sources of all parts.
    pub(in crate::dataset) fn sources(&self) -> impl Iterator<Item = &Source> {
        self.parts.iter().map(|part| &part.source)
    }

    /// Entries of folders that are no rows, each with the number of its folder among the files of all parts.
    pub(in crate::dataset) fn left_out(&self) -> Vec<(u32, String)> {
        let of_part = |part: &SourcePart| numbered(part, part.source.left_out());
        self.parts.iter().flat_map(of_part).collect()
    }

    /// Problems of rows that were read, each with the number of its file among those of all parts.
    pub(in crate::dataset) fn warnings(&self) -> Vec<(u32, String)> {
        let of_part = |part: &SourcePart| numbered(part, part.source.warnings());
        self.parts.iter().flat_map(of_part).collect()
    }

    /// The local files that hold the bytes.
    pub(in crate::dataset) fn local_files(&self) -> impl Iterator<Item = &Path> {
        self.sources().flat_map(Source::local_files)
    }

    /// The names of a column's classes in each file.
    pub(in crate::dataset) fn class_names(&self, column: &str) -> Vec<Option<Vec<String>>> {
        self.sources().flat_map(|source| source.class_names(column)).collect()
    }
}

/// The files of all sets with the columns of the task, which is returned as [`Sources::open`] returns it.
fn open_parts(mixture: &Mixture, task: &TaskSpec) -> Result<(Vec<SourcePart>, TaskSpec)> {
    let (mut parts, mut task) = (Vec::<SourcePart>::new(), task.clone());
    let mut first_file = 0;
    for (set, mixed) in mixture.sets.iter().enumerate() {
        for (place, (files, range)) in mixed.parts.iter().enumerate() {
            let source = Source::open(files)?;
            if parts.is_empty() {
                task = task.for_columns(source.columns());
            }
            if place == 0 {
                task = task.for_columns_of_set(set, source.columns());
            }
            task.check_texts(set, &source)?;
            source.require_columns(&task.columns_of_set(set, source.columns()))?;
            let files = source.files().len();
            parts.push(SourcePart { source, set, first_file, range: *range });
            first_file += files;
        }
    }
    Ok((parts, task))
}

/// Warnings about files of a part, each with the number of its file among those of all parts.
fn numbered(
    part: &SourcePart,
    warnings: impl Iterator<Item = (usize, String)>,
) -> Vec<(u32, String)> {
    warnings.map(|(file, warning)| ((part.first_file + file) as u32, warning)).collect()
}

impl SourcePart {
    /// Checks the first rows behind those that lack a text. Returns the number of rows where all lack one; None where
    /// some have theirs, or where rows cannot be read, of which the run says more.
    fn check_first_rows(
        &self,
        task: &TaskSpec,
        known: KnownTokenizer,
        lacking: &mut LackingRows,
    ) -> Result<Option<u64>> {
        let columns = task.columns_of_set(self.set, self.source.columns());
        let (source, set, first_file) = (&self.source, self.set, self.first_file);
        let names = |column: &str| {
            let others = std::iter::repeat_n(None, first_file);
            others.chain(source.class_names(column)).collect()
        };
        let (mut rows, mut checked) = (0, None);
        let are_all_read = source.read_until(&columns, |part, records| {
            let row = |record| Row { source, set, first_file, part, records, record };
            for record in 0..records.len() {
                let lack = task.lack_of_row(&row(record)).filter(|_| rows < LACKING_ROWS_MAX);
                let Some(lack) = lack else {
                    let first = (record..records.len()).take(task.rows_to_check(known));
                    checked = Some(task.check_rows(first.map(row), known, names));
                    return false;
                };
                lacking.add(rows as u32, &lack, None);
                rows += 1;
            }
            true
        });
        match checked {
            Some(checked) => checked.map(|()| None),
            None => Ok(are_all_read.then_some(rows)),
        }
    }

    /// The number of rows of each of its files.
    fn count(&self) -> Result<Vec<u64>> {
        let mut counts = vec![0; self.source.files().len()];
        let column: Vec<&str> = self.source.columns().iter().map(String::as_str).take(1).collect();
        for part in self.source.parts() {
            counts[part.file] += self.source.read(part, &column, &mut |_| Ok(()))?;
        }
        Ok(counts)
    }

    /// The rows of the part that are read, first and one behind the last. `counts` are the rows of all
    /// files where they are known.
    pub(super) fn rows(&self, counts: Option<&[u64]>) -> Result<(u64, u64)> {
        let files = self.first_file..self.first_file + self.source.files().len();
        let count = counts.map(|counts| counts[files].iter().sum());
        // An open end is beyond all rows.
        self.range.rows(count.unwrap_or(i64::MAX as u64))
    }
}
