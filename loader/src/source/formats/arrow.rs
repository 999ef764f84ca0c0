//! Arrow IPC, as a file (random access, with a footer) or as a stream (what `datasets` writes),
//! recognized by the file's first bytes. A file is one part: batches come in order. A batch of the
//! file is in memory as a whole, as its writer had it (`datasets` writes a thousand rows). The
//! reader panics on some malformed files; [`crate::guard`] stands around every call.

use std::fs::File;
use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_ipc::reader::{FileReader, StreamReader};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use serde_json::Value as Json;

use super::arrow_bodies;
use super::arrow_values::{check_type, memory, values};
use super::{DataFile, FormatOptions};
use crate::error::{Error, Result};
use crate::source::records::{RECORDS_BYTES_MAX, RECORDS_MAX};
use crate::source::{Records, Sink};

/// The first bytes of the file format; a stream starts with a message.
const FILE_MAGIC: &[u8; 6] = b"ARROW1";

/// The metadata key of the column descriptions in files that `datasets` wrote.
pub(super) const NOTED_AS: &str = "huggingface";

/// The bytes behind the footer: its length and the magic bytes.
const TRAILER_BYTES: u64 = 4 + FILE_MAGIC.len() as u64;

/// The most memory that the values of a row may take. Values of no bits, and those that stand in a dictionary, take no
/// space in a file.
const ROW_MEMORY_MAX: u64 = 1 << 30;

struct ArrowFile {
    path: PathBuf,
    schema: SchemaRef,
}

pub(super) fn open(path: &Path, _options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    check_bodies(path)?;
    let schema = reader(path, None)?.schema();
    Ok(Box::new(ArrowFile { path: path.to_path_buf(), schema }))
}

/// Fails if a compressed batch would take more memory than data does.
fn check_bodies(path: &Path) -> Result<()> {
    let mut file = File::open(path).map_err(Error::io(path, "open"))?;
    if !is_file(path, &mut file)? {
        return arrow_bodies::check_stream(path, &mut file);
    }
    check_footer(path, &mut file)?;
    let (_, footer) = footer(&mut file).map_err(Error::io(path, "read"))?;
    let footer = arrow_ipc::root_as_footer(&footer)
        .map_err(|error| Error::bad_file(path, "Arrow", error))?;
    let blocks = [footer.recordBatches(), footer.dictionaries()].into_iter().flatten().flatten();
    arrow_bodies::check_blocks(path, &mut file, blocks)
}

/// Whether the file has a footer.
fn is_file(path: &Path, file: &mut File) -> Result<bool> {
    let mut magic = Vec::new();
    let start = file.by_ref().take(FILE_MAGIC.len() as u64).read_to_end(&mut magic);
    start.and_then(|_| file.rewind()).map_err(Error::io(path, "read"))?;
    Ok(magic.as_slice() == FILE_MAGIC)
}

fn reader(path: &Path, projection: Option<Vec<usize>>) -> Result<Box<dyn RecordBatchReader>> {
    let bad_file = |error: ArrowError| Error::bad_file(path, "Arrow", error);
    let mut file = File::open(path).map_err(Error::io(path, "open"))?;
    let is_file = is_file(path, &mut file)?;
    if is_file {
        check_footer(path, &mut file)?;
    }
    let file = BufReader::with_capacity(1 << 16, file);
    Ok(match is_file {
        true => Box::new(FileReader::try_new(file, projection).map_err(bad_file)?),
        false => Box::new(StreamReader::try_new(file, projection).map_err(bad_file)?),
    })
}

/// Fails if the footer lists batches beyond the end of the file: the reader would allocate memory
/// for them before it noticed.
fn check_footer(path: &Path, file: &mut File) -> Result<()> {
    let (size, footer) = footer(file).map_err(Error::io(path, "read"))?;
    file.rewind().map_err(Error::io(path, "read"))?;
    let bad = |message: &dyn std::fmt::Display| Error::bad_file(path, "Arrow", message);
    let footer = arrow_ipc::root_as_footer(&footer).map_err(|error| bad(&error))?;
    let blocks = [footer.recordBatches(), footer.dictionaries()].into_iter().flatten().flatten();
    let fits = |block: &arrow_ipc::Block| {
        let parts = [block.offset(), i64::from(block.metaDataLength()), block.bodyLength()];
        let parts = parts.map(|part| u64::try_from(part).unwrap_or(u64::MAX));
        parts.into_iter().fold(0, u64::saturating_add) <= size
    };
    match blocks.into_iter().all(fits) {
        true => Ok(()),
        false => Err(bad(&"its footer lists more bytes than the file has")),
    }
}

/// The file's size and its footer, as far as the file has one.
fn footer(file: &mut File) -> std::io::Result<(u64, Vec<u8>)> {
    let size = file.seek(SeekFrom::End(0))?;
    let end = piece(file, size.saturating_sub(TRAILER_BYTES), size.min(TRAILER_BYTES))?;
    let length = end.first_chunk().map_or(0, |length| u64::from(u32::from_le_bytes(*length)));
    let start = size.saturating_sub(TRAILER_BYTES.saturating_add(length));
    Ok((size, piece(file, start, length.min(size - start))?))
}

fn piece(file: &mut File, from: u64, bytes: u64) -> std::io::Result<Vec<u8>> {
    let mut piece = vec![0; bytes as usize];
    file.seek(SeekFrom::Start(from)).and_then(|_| file.read_exact(&mut piece))?;
    Ok(piece)
}

impl DataFile for ArrowFile {
    fn columns(&self) -> Result<Vec<String>> {
        Ok(self.schema.fields().iter().map(|field| field.name().clone()).collect())
    }

    fn class_names(&self, column: &str) -> Option<Vec<String>> {
        class_names(self.schema.metadata().get(NOTED_AS)?, column)
    }

    fn read(&self, _part: usize, columns: &[&str], sink: Sink<'_>) -> Result<()> {
        check_types(&self.path, "Arrow", &self.schema, columns)?;
        let wanted = self.schema.fields().iter().enumerate();
        let wanted = wanted.filter(|(_, field)| columns.contains(&field.name().as_str()));
        let projection = wanted.map(|(place, _)| place).collect();
        let mut row = 0;
        for batch in reader(&self.path, Some(projection))? {
            let batch = batch.map_err(|error| Error::bad_file(&self.path, "Arrow", error))?;
            hand_on(&self.path, "Arrow", &batch, row, columns, sink)?;
            row += batch.num_rows() as u64;
        }
        Ok(())
    }
}

/// The names of a `ClassLabel` column, or of a list of them, of what `datasets` notes.
pub(super) fn class_names(noted: &str, column: &str) -> Option<Vec<String>> {
    let noted: Json = serde_json::from_str(noted).ok()?;
    let feature = noted.get("info")?.get("features")?.get(column)?;
    let names = feature.get("names").or_else(|| feature.get("feature")?.get("names"))?;
    serde_json::from_value(names.clone()).ok()
}

/// Fails if a column has values that cannot be read.
pub(super) fn check_types(
    path: &Path,
    format: &'static str,
    schema: &Schema,
    columns: &[&str],
) -> Result<()> {
    let fields = schema.fields().iter();
    for field in fields.filter(|field| columns.contains(&field.name().as_str())) {
        let name = field.name();
        check_type(field.data_type()).map_err(|problem| {
            Error::bad_file(path, format, format!("column {name:?}: {problem}"))
        })?;
    }
    Ok(())
}

/// Hands the rows of a batch to `sink`, some at a time; the first of them is row `first_row` of its file.
pub(super) fn hand_on(
    path: &Path,
    format: &'static str,
    batch: &RecordBatch,
    first_row: u64,
    columns: &[&str],
    sink: Sink<'_>,
) -> Result<()> {
    // Halves that are left, the first one last.
    let mut left = vec![(first_row, batch.clone())];
    while let Some((row, batch)) = left.pop() {
        let rows = batch.num_rows();
        if rows == 0 {
            continue;
        }
        let bytes = batch.columns().iter().map(memory).fold(0, u64::saturating_add);
        if rows > RECORDS_MAX || rows > 1 && bytes > RECORDS_BYTES_MAX as u64 {
            let half = rows / 2;
            left.push((row + half as u64, batch.slice(half, rows - half)));
            left.push((row, batch.slice(0, half)));
            continue;
        }
        if bytes > ROW_MEMORY_MAX {
            let message =
                format!("row {} takes {bytes} bytes of memory, of {ROW_MEMORY_MAX}", row + 1);
            return Err(Error::bad_file(path, format, message));
        }
        sink(records(path, format, &batch, row, columns)?)?;
    }
    Ok(())
}

/// The rows of a batch, the first of which is row `first_row` of its file.
fn records(
    path: &Path,
    format: &'static str,
    batch: &RecordBatch,
    first_row: u64,
    columns: &[&str],
) -> Result<Records> {
    let bad = |message: String| Error::bad_file(path, format, message);
    let column = |name: &&str| {
        let array = batch.column_by_name(name);
        let array = array.ok_or_else(|| bad(format!("column {name:?} is missing")))?;
        values(array).map_err(|problem| bad(format!("column {name:?}: {problem}")))
    };
    let cells = columns.iter().map(column).collect::<Result<Vec<_>>>()?;
    Ok(Records::of_columns(first_row, columns, cells))
}
