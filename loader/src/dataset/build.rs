//! Reads and tokenizes all rows. Parts of files are read in parallel, and so are the rows within
//! a part tokenized, by one pool; results are put together in data set order.

use std::path::Path;

use rayon::prelude::*;

use super::blocks;
use super::labels::Labels;
use super::set::{About, FileRows, TokenizedSet, origin};
use crate::labels::{LabelReader, RowLabel};
use crate::tasks::{Context, Example, Row, Task};
use crate::{Error, Location, Part, Records, Result, Source, TaskSpec, TextTokenizer};

/// The examples of consecutive rows.
#[derive(Default)]
struct Examples {
    input_ids: Vec<u32>,
    token_type_ids: Vec<u8>,
    lengths: Vec<u32>,
    masking: Vec<u8>,
    context_offsets: Vec<[u32; 2]>,
    labels: Vec<RowLabel>,
    truncated_rows: u64,
    /// The row, from 0 in these, that each example came from.
    rows_of_examples: Vec<u64>,
    rows: u64,
}

pub(super) fn build(
    source: &Source,
    task: &TaskSpec,
    tokenizer: &dyn TextTokenizer,
) -> Result<TokenizedSet> {
    let columns = task.columns();
    let task = task.task();
    let labels = task.labels();
    let labels = labels.map(|spec| LabelReader::new(spec, source.class_names(&spec.column)));
    let context = Context { tokenizer, labels };
    let parts = source.parts();
    let examples: Vec<Result<Examples>> =
        parts.par_iter().map(|&part| read_part(source, part, &columns, task, &context)).collect();
    let examples = examples.into_iter().collect::<Result<Vec<_>>>()?;
    let files = rows_of_files(source, &parts, &examples)?;
    let set = assemble(examples, files, task, context.labels.as_ref())?;
    match task.block_size() {
        Some(block_size) => blocks::cut_into_blocks(set, block_size),
        None => Ok(set),
    }
}

fn read_part(
    source: &Source,
    part: Part,
    columns: &[&str],
    task: &dyn Task,
    context: &Context<'_>,
) -> Result<Examples> {
    let mut examples = Examples::default();
    source.read(part, columns, &mut |records: &Records| {
        let encode = |record| task.encode(&Row { source, part, records, record }, context);
        let encoded: Vec<Result<Vec<Example>>> =
            (0..records.len()).into_par_iter().map(encode).collect();
        encoded.into_iter().try_for_each(|row| row.map(|row| examples.push_row(row)))
    })?;
    Ok(examples)
}

fn rows_of_files(source: &Source, parts: &[Part], examples: &[Examples]) -> Result<Vec<FileRows>> {
    let new = |path: &Path| FileRows { path: path.to_path_buf(), rows: 0 };
    let mut files: Vec<FileRows> = source.files().map(new).collect();
    for (part, examples) in parts.iter().zip(examples) {
        files[part.file].rows += examples.rows;
    }
    let rows: u64 = files.iter().map(|file| file.rows).sum();
    let max = u64::from(u32::MAX);
    match rows {
        0 => Err(no_rows(&files)),
        rows if rows > max => Err(Error::TooManyRows { rows, max }),
        _ => Ok(files),
    }
}

fn no_rows(files: &[FileRows]) -> Error {
    let paths = files.iter().map(|file| file.path.display().to_string());
    Error::NoRows { files: paths.collect::<Vec<_>>().join(", ") }
}

fn assemble(
    parts: Vec<Examples>,
    files: Vec<FileRows>,
    task: &dyn Task,
    reader: Option<&LabelReader<'_>>,
) -> Result<TokenizedSet> {
    let mut all = Examples::default();
    parts.into_iter().for_each(|part| all.append(part));
    check_examples(&all, &files)?;
    let at = |example: usize| {
        let row = all.rows_of_examples[example];
        origin(&files, row as usize).unwrap_or_else(|| Location::of_row(Path::new(""), row))
    };
    let (labels, label_encoder) = match reader {
        Some(reader) => reader.finish(&all.labels, at)?,
        None if task.predicts_inputs() => (Labels::InputIds, None),
        None => (spans(&all.labels), None),
    };
    let one_segment = all.token_type_ids.iter().all(|&id| id == 0);
    let row_each = all.rows_of_examples.iter().copied().eq(0..all.rows);
    let source_rows = || all.rows_of_examples.iter().map(|&row| row as u32).collect();
    Ok(TokenizedSet {
        source_rows: (!row_each).then(source_rows),
        offsets: offsets(&all.lengths),
        input_ids: all.input_ids,
        token_type_ids: (!one_segment).then_some(all.token_type_ids),
        masking: (!all.masking.is_empty()).then_some(all.masking),
        context_offsets: (!all.context_offsets.is_empty()).then_some(all.context_offsets),
        about: About {
            files,
            label_encoder,
            truncated_rows: all.truncated_rows,
            labels: labels.arrays(),
        },
        labels,
    })
}

/// Rows are limited where they are counted; here are the examples that rows fall into.
fn check_examples(all: &Examples, files: &[FileRows]) -> Result<()> {
    let (rows, max) = (all.lengths.len() as u64, u64::from(u32::MAX));
    match rows {
        0 => Err(no_rows(files)),
        rows if rows > max => Err(Error::TooManyRows { rows, max }),
        _ => Ok(()),
    }
}

/// Targets that a task found without a column of labels.
fn spans(labels: &[RowLabel]) -> Labels {
    let pairs = labels.iter().filter_map(|label| match label {
        RowLabel::Span(start, end) => Some((*start, *end)),
        _ => None,
    });
    let (start_positions, end_positions): (Vec<i32>, Vec<i32>) = pairs.unzip();
    match start_positions.is_empty() {
        true => Labels::None,
        false => Labels::Span { start_positions, end_positions },
    }
}

fn offsets(lengths: &[u32]) -> Vec<u64> {
    let ends = lengths.iter().scan(0, |end, &length| {
        *end += u64::from(length);
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
}

impl Examples {
    fn push_row(&mut self, examples: Vec<Example>) {
        self.rows_of_examples.extend(examples.iter().map(|_| self.rows));
        examples.into_iter().for_each(|example| self.push(example));
        self.rows += 1;
    }

    fn push(&mut self, example: Example) {
        self.lengths.push(example.encoded.input_ids.len() as u32);
        self.truncated_rows += u64::from(example.encoded.truncated);
        self.input_ids.extend(example.encoded.input_ids);
        self.token_type_ids.extend(example.encoded.token_type_ids);
        self.masking.extend(example.masking);
        self.context_offsets.extend(example.context_offsets);
        self.labels.extend(example.label);
    }

    fn append(&mut self, next: Self) {
        self.rows_of_examples.extend(next.rows_of_examples.iter().map(|row| self.rows + row));
        self.rows += next.rows;
        self.truncated_rows += next.truncated_rows;
        self.input_ids.extend(next.input_ids);
        self.token_type_ids.extend(next.token_type_ids);
        self.lengths.extend(next.lengths);
        self.masking.extend(next.masking);
        self.context_offsets.extend(next.context_offsets);
        self.labels.extend(next.labels);
    }
}
