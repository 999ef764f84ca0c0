//! Reads and tokenizes all rows in one pass with bounded memory: a thread reads some rows ahead,
//! the pool tokenizes those of one chunk at a time, and the examples are written to disk in data
//! set order.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};

use rayon::prelude::*;
use traind_cache::require_space;

use super::array::Seal;
use super::blocks;
use super::left_out::LeftOutRows;
use super::mixture::{Piece, Sources, read_ahead};
use super::packing::Packer;
use super::rows::Rows;
use super::set::{About, FileRows, TokenizedSet, origin};
use super::targets::{BadLabel, Settled, Targets};
use super::tokens::TokensWriter;
use crate::error::{Error, Location, Result};
use crate::labels::{LabelReader, Labels};
use crate::source::Row;
use crate::tasks::{Example, Lack, LackingRows, LeftOut, PackingStrategy, SetContext, TaskSpec};
use crate::tokenize::TextTokenizer;

/// Chunks of rows read ahead: one waits while another is read.
const CHUNKS_READY: usize = 1;

/// Bytes of tokens between two checks of the free disk space.
const CHECK_EVERY_BYTES: u64 = 64 << 20;

/// Rows and examples of a set are numbered by 32 bits.
const ROWS_MAX: u64 = u32::MAX as u64;

/// A set, with the seals of the arrays that are on disk already.
pub(super) struct Built {
    pub(super) set: TokenizedSet,
    pub(super) seals: Vec<Seal>,
}

/// The product of each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Making {
    Examples,
    /// Examples without their tokens.
    Outlines,
}

/// Turns the rows of `sources` into array files in `folder`.
pub(super) fn build(
    sources: &Sources,
    task: &TaskSpec,
    making: Making,
    tokenizer: &dyn TextTokenizer,
    folder: &Path,
    watch: &mut dyn FnMut(u64) -> bool,
) -> Result<Built> {
    let preprocessor = task.preprocessor();
    let labels = preprocessor.labels();
    let labels = labels.map(|spec| LabelReader::new(spec, sources.class_names(&spec.column)));
    let context = SetContext { tokenizer, labels };
    let mut builder = Builder::new(sources, folder, preprocessor.packing())?;
    std::thread::scope(|scope| {
        let (sender, chunks) = sync_channel(CHUNKS_READY);
        scope.spawn(|| read_ahead(sources, task, sender));
        builder.take_all(chunks, task, making, &context, watch)
    })?;
    builder.finish(task, context.labels.as_ref())
}

/// Rows in order, or why there are no more.
type Chunk = Result<Vec<Piece>>;

/// The set so far.
struct Builder<'source> {
    sources: &'source Sources,
    tokens: TokensWriter,
    rows: Rows,
    targets: Targets,
    files: FileNumbers,
    rows_read: u64,
    truncated_rows: u64,
    lacking: LackingRows,
    left_out: LeftOutRows,
    folder: PathBuf,
    /// Bytes of tokens at the last check of the disk.
    bytes_at_check: u64,
    /// Present where texts share rows.
    packer: Option<Packer>,
}

impl<'source> Builder<'source> {
    fn new(
        sources: &'source Sources,
        folder: &Path,
        packing: Option<(PackingStrategy, u32)>,
    ) -> Result<Self> {
        Ok(Self {
            sources,
            tokens: TokensWriter::create(folder)?,
            rows: Rows::default(),
            targets: Targets::new(folder),
            files: FileNumbers::new(sources),
            rows_read: 0,
            truncated_rows: 0,
            lacking: LackingRows::default(),
            left_out: LeftOutRows::default(),
            folder: folder.to_path_buf(),
            bytes_at_check: 0,
            packer: packing.map(|(strategy, length)| Packer::new(strategy, length)),
        })
    }

    fn take_all(
        &mut self,
        chunks: Receiver<Chunk>,
        task: &TaskSpec,
        making: Making,
        context: &SetContext<'_>,
        watch: &mut dyn FnMut(u64) -> bool,
    ) -> Result<()> {
        let preprocessor = task.preprocessor();
        for chunk in chunks {
            let pieces = chunk?;
            let of_piece = |piece| rows_of(self.sources, piece);
            let rows: Vec<Row<'_>> = pieces.iter().flat_map(of_piece).collect();
            let encode = |row: &Row<'_>| {
                if context.labels.as_ref().is_some_and(|labels| labels.leaves_out(row)) {
                    return (None, Ok((Vec::new(), Some(LeftOut::Label))));
                }
                let lack = task.lack(row);
                let examples = match (&lack, making) {
                    (Some(Lack { is_left_out: true, .. }), _) => Ok(Vec::new()),
                    (_, Making::Examples) => preprocessor.encode(row, context),
                    (_, Making::Outlines) => preprocessor.outline(row, context),
                };
                let examples = examples.and_then(|examples| weighted(examples, row, context));
                let examples = examples.and_then(|examples| {
                    let makes_none = lack.is_none() && examples.is_empty();
                    let cause = makes_none.then(|| preprocessor.why_left_out(row, context));
                    Ok((examples, cause.transpose()?.flatten()))
                });
                (lack, examples)
            };
            for rows in rows.chunks(preprocessor.rows_at_a_time().min(rows.len().max(1))) {
                let encoded: Vec<_> = rows.par_iter().map(encode).collect();
                let mut encoded = rows.iter().zip(encoded);
                encoded.try_for_each(|(row, (lack, examples))| {
                    let (examples, cause) = examples?;
                    self.push_row(row, lack, cause, examples)
                })?;
            }
            context.labels.as_ref().map_or(Ok(()), LabelReader::check_count)?;
            self.check_space()?;
            if !watch(self.rows_read) {
                return Err(Error::Abandoned);
            }
        }
        let last = self.packer.as_mut().map(Packer::take).unwrap_or_default();
        last.into_iter().try_for_each(|(source_row, example)| self.push(source_row, example))
    }

    /// Checks the free disk space now and then, so that the tokens never fill the disk.
    fn check_space(&mut self) -> Result<()> {
        let bytes = self.tokens.bytes();
        if bytes < self.bytes_at_check + CHECK_EVERY_BYTES && self.bytes_at_check > 0 {
            return Ok(());
        }
        self.bytes_at_check = bytes;
        Ok(require_space(&self.folder, CHECK_EVERY_BYTES, "the tokenized rows")?)
    }

    fn push_row(
        &mut self,
        row: &Row<'_>,
        lack: Option<Lack<'_>>,
        cause: Option<LeftOut>,
        examples: Vec<Example>,
    ) -> Result<()> {
        let source_row = self.files.number(row.file(), row.records.row(row.record))?;
        if let Some(lack) = lack {
            let file = row.source.file_of_row(row.part, row.records.row(row.record));
            self.lacking.add(source_row, &lack, file);
        }
        if let Some(cause) = cause {
            self.left_out.add(source_row, cause);
        }
        for example in examples {
            self.truncated_rows += u64::from(example.encoded.truncated);
            let ready = match &mut self.packer {
                Some(packer) => packer.push(source_row, example),
                None => vec![(source_row, example)],
            };
            ready
                .into_iter()
                .try_for_each(|(source_row, example)| self.push(source_row, example))?;
        }
        self.rows_read += 1;
        match self.rows.len() as u64 {
            rows if rows > ROWS_MAX => Err(Error::TooManyRows { rows, max: ROWS_MAX }),
            _ => Ok(()),
        }
    }

    fn push(&mut self, source_row: u32, example: Example) -> Result<()> {
        let length = example.encoded.input_ids.len() as u32;
        self.rows.push(self.tokens.len(), length, source_row);
        if let Some(target) = &example.target {
            self.rows.push_target(target.len() as u32);
        }
        self.rows.push_sequences(&example.sequence_lengths);
        self.rows.weights.extend(example.weight);
        self.tokens.push(&example)?;
        example.label.map_or(Ok(()), |label| self.targets.push(label))
    }

    fn finish(self, task: &TaskSpec, reader: Option<&LabelReader<'_>>) -> Result<Built> {
        if self.rows.len() == 0 {
            return Err(self.no_rows());
        }
        let Self { tokens, rows, targets, files: FileNumbers { files, .. }, .. } = self;
        let (mut tokens, mut seals) = tokens.finish()?;
        let settled = targets.settle(reader, |bad| label_error(bad, reader, &rows, &files));
        let settled = settled.map_err(|error| task.about_classes(error))?;
        let Settled { labels, of_tokens, encoder: label_encoder } = settled;
        tokens.labels = of_tokens.map(|(array, seal)| {
            seals.push(seal);
            array
        });
        let preprocessor = task.preprocessor();
        let labels = match (labels, preprocessor.predicts_inputs()) {
            (Labels::None, true) => Labels::InputIds,
            (labels, _) => labels,
        };
        let (rows, labels) = match preprocessor.order(&rows.source_rows, &labels) {
            Some(order) => (rows.select(&order), labels.select(&order)),
            None => (rows, labels),
        };
        let rows = match preprocessor.block_size() {
            Some(block_size) => blocks::cut_into_blocks(&rows, block_size)?,
            None => rows,
        };
        let about = About {
            warnings: self.left_out.warnings(&files),
            files,
            label_encoder,
            truncated_rows: self.truncated_rows,
            lacking: self.lacking,
            too_long: self.left_out.too_long,
            labels: labels.arrays(),
        };
        let (tokens, task) = (Arc::new(tokens), task.clone());
        let set = TokenizedSet { tokens, rows, labels, task, about, vectors: None };
        Ok(Built { set, seals })
    }
}

/// The examples of a row with its weight, if rows have any.
fn weighted(
    mut examples: Vec<Example>,
    row: &Row<'_>,
    context: &SetContext<'_>,
) -> Result<Vec<Example>> {
    let Some(labels) = &context.labels else { return Ok(examples) };
    let weight = labels.read_weight(row)?;
    examples.iter_mut().for_each(|example| example.weight = weight);
    Ok(examples)
}

impl Builder<'_> {
    /// The error of files without rows, or of which all rows were left out.
    fn no_rows(&self) -> Error {
        let paths = self.files.files.iter().map(|file| file.path.display().to_string());
        let files = paths.collect::<Vec<_>>().join(", ");
        let rows = self.rows_read;
        let why = self.left_out.why_all(rows, &self.lacking);
        if rows == 0 { Error::NoRows { files } } else { Error::NoRowsLeft { files, rows, why } }
    }
}

/// The rows of a piece.
fn rows_of<'a>(sources: &'a Sources, piece: &'a Piece) -> impl Iterator<Item = Row<'a>> {
    let part = sources.part(piece.source);
    piece.rows.clone().map(|record| Row {
        source: &part.source,
        set: part.set,
        first_file: part.first_file,
        part: piece.part,
        records: &piece.records,
        record,
    })
}

/// Numbers the rows of all files taken together.
struct FileNumbers {
    files: Vec<FileRows>,
    /// The number of the first row of each file up to the one that is read.
    starts: Vec<u64>,
    /// Whether the rows of the files were counted, and files are not read one after the other.
    are_counted: bool,
}

impl FileNumbers {
    fn new(sources: &Sources) -> Self {
        let counts = sources.counts.as_deref();
        let rows = |file: usize| counts.map_or(0, |counts| counts[file]);
        let sets = sources.sets_of_files();
        let files = sources.files().zip(sets).enumerate();
        let files = files.map(|(file, (path, set))| FileRows {
            path: path.into(),
            rows: rows(file),
            set: set as u32,
        });
        Self { files: files.collect(), starts: vec![0], are_counted: counts.is_some() }
    }

    /// The number of row `row` of a file.
    fn number(&mut self, file: usize, row: u64) -> Result<u32> {
        while self.starts.len() <= file {
            let last = self.starts.len() - 1;
            self.starts.push(self.starts[last] + self.files[last].rows);
        }
        if !self.are_counted {
            let rows = &mut self.files[file].rows;
            *rows = (*rows).max(row + 1);
        }
        let number = self.starts[file] + row;
        u32::try_from(number).map_err(|_| Error::TooManyRows { rows: number, max: ROWS_MAX })
    }
}

/// The error for a label without id, with its row.
fn label_error(
    bad: BadLabel,
    reader: Option<&LabelReader<'_>>,
    rows: &Rows,
    files: &[FileRows],
) -> Error {
    let example = if bad.of_token { rows.of_token(bad.item) } else { bad.item as usize };
    let row = rows.source_row(example);
    let at = origin(files, row as usize);
    let at = at.unwrap_or_else(|| Location::of_row(Path::new(""), u64::from(row)));
    match reader {
        Some(reader) => reader.error(at, bad.problem),
        None => Error::BadRow { at, message: bad.problem.to_string() },
    }
}
