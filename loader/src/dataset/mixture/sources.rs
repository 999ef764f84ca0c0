//! The opened files of a mixture.

use std::path::Path;

use super::super::left_out::LeftOutRows;
use super::check::{RowsCheck, Settled};
use super::part::SourcePart;
use super::token_lengths::TokenLengths;
use super::{Mixing, Mixture};
use crate::error::{Error, Result};
use crate::labels::{LabelEncoder, LabelReader};
use crate::source::Source;
use crate::tasks::{KnownTokenizer, SetContext, TaskSpec};
use crate::token_row::TokenLimits;

/// The most bytes of all files of a split whose rows are all checked.
const CHECKED_BYTES_MAX: u64 = 16 << 20;

/// The facts about a split that its files show before a run.
#[derive(Debug)]
pub struct Checked {
    /// The task as it reads the files.
    pub task: TaskSpec,
    /// The rule of labels, itself none where they are no classes, of which all rows were checked.
    pub rule: Option<Option<LabelEncoder>>,
    /// Whether all rows were checked, and only their tokens show whether any makes an example.
    pub needs_tokens: bool,
    /// Warnings about classes that may be none.
    pub doubtful_labels: Vec<String>,
    /// The lengths of rows that are tokenized already and are not cut.
    pub token_lengths: Option<TokenLengths>,
}

/// The opened files of all sets.
pub(in crate::dataset) struct Sources {
    pub(super) parts: Vec<SourcePart>,
    pub(super) mixture: Mixture,
    /// The number of rows of each file, in order, where the order of rows depends on it.
    pub(in crate::dataset) counts: Option<Vec<u64>>,
}

impl Sources {
    /// Opens the files and checks that they have the columns of `task`, which is returned as it reads
    /// files with the columns of the first, of all sets or of each.
    pub(in crate::dataset) fn open(
        mixture: &Mixture,
        task: &TaskSpec,
        limits: TokenLimits,
    ) -> Result<(Self, TaskSpec)> {
        let (parts, task) = open_parts(mixture, task, limits)?;
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
    /// rows that cannot become an example. Reads all rows of small files, and of others no more than the first rows
    /// that have their texts.
    pub(in crate::dataset) fn check(
        mixture: &Mixture,
        task: &TaskSpec,
        known: KnownTokenizer,
        has_rule: bool,
    ) -> Result<Checked> {
        let (parts, task) = open_parts(mixture, task, known.token_limits)?;
        if !parts.iter().any(|part| part.source.may_have_rows()) {
            return Err(Error::NoRows { files: files_of(&parts) });
        }
        let are_small = mixture.mixing == Mixing::Concatenate && are_small(&parts);
        let rows_max = task.rows_to_check(known, are_small);
        if rows_max == 0 {
            let doubtful_labels = Vec::new();
            let (rule, needs_tokens, token_lengths) = (None, false, None);
            return Ok(Checked { task, rule, needs_tokens, doubtful_labels, token_lengths });
        }
        task.check_settings(known)?;
        let tokenizer = known.tokenizer();
        let context = SetContext { tokenizer: &tokenizer, labels: label_reader(&task, &parts) };
        let mut check = RowsCheck::new(&task, &context, rows_max);
        let mut set_before = None;
        for part in &parts {
            let limit = mixture.sets[part.set].limit;
            let is_first = set_before.replace(part.set) != Some(part.set);
            match part.range.is_whole() && (is_first || limit.is_none()) {
                true => check.part(part, limit)?,
                false => check.pass_over(),
            }
        }
        if let Some(rows) = check.without_texts.filter(|rows| *rows > 0) {
            let why = LeftOutRows::default().why_all(rows, &check.lacking);
            return Err(Error::NoRowsLeft { files: files_of(&parts), rows, why });
        }
        let needs_tokens = check.needs_tokens();
        let Settled { rule, doubtful } =
            if has_rule { check.settle()? } else { Settled::default() };
        drop(context);
        let token_lengths = match &task {
            TaskSpec::Tokenized(task) if !task.is_cut() => {
                Some(TokenLengths::of(mixture, &parts, task, &tokenizer))
            }
            _ => None,
        };
        Ok(Checked { task, rule, needs_tokens, doubtful_labels: doubtful, token_lengths })
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
pub(super) fn open_parts(
    mixture: &Mixture,
    task: &TaskSpec,
    limits: TokenLimits,
) -> Result<(Vec<SourcePart>, TaskSpec)> {
    let (mut parts, mut task) = (Vec::<SourcePart>::new(), task.clone());
    let mut first_file = 0;
    for (set, mixed) in mixture.sets.iter().enumerate() {
        for (place, (files, range)) in mixed.parts.iter().enumerate() {
            let source = Source::open(files)?;
            if parts.is_empty() {
                task = task.for_columns_within(source.columns(), limits).for_values(&source)?;
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

/// The files of all parts, as errors name them.
pub(super) fn files_of(parts: &[SourcePart]) -> String {
    let files = parts.iter().flat_map(|part| part.source.files());
    files.map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// The reader of the labels of all rows.
pub(super) fn label_reader<'task>(
    task: &'task TaskSpec,
    parts: &[SourcePart],
) -> Option<LabelReader<'task>> {
    let spec = task.preprocessor().labels()?;
    let names = parts.iter().flat_map(|part| part.source.class_names(&spec.column));
    Some(LabelReader::new(spec, names.collect()))
}

/// Returns true for files of which all rows are read quickly.
fn are_small(parts: &[SourcePart]) -> bool {
    let files = parts.iter().flat_map(|part| part.source.local_files());
    let sizes = files.map(|file| file.metadata().map_or(u64::MAX, |found| found.len()));
    sizes.fold(0, u64::saturating_add) <= CHECKED_BYTES_MAX
}

/// Warnings about files of a part, each with the number of its file among those of all parts.
fn numbered(
    part: &SourcePart,
    warnings: impl Iterator<Item = (usize, String)>,
) -> Vec<(u32, String)> {
    warnings.map(|(file, warning)| ((part.first_file + file) as u32, warning)).collect()
}
