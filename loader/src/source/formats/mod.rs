//! The data formats. A new one is a file here that implements [`DataFile`], and a line in
//! [`FORMATS`].

mod arrow;
mod arrow_bodies;
mod arrow_values;
pub(crate) mod class_folder;
mod compression;
mod csv;
mod encoding;
mod json;
mod lines;
mod parquet;
mod parquet_chunks;
mod parquet_numbers;
mod parquet_pages;
mod parquet_schema;
mod text;
mod thrift;

use std::io::{Cursor, Read};
use std::path::Path;

use serde::Serialize;

pub use self::csv::{CsvOptions, Delimiter, OnBadLines};
use super::Sink;
use super::records::{RECORDS_BYTES_MAX, RECORDS_MAX};
use crate::error::{Error, Result};
use compression::{COMPRESSIONS, missing_end, open_text, without_compression};
pub use encoding::Encoding;
pub use json::value_of_json;

/// The longest row of a text format. A longer one means that the file lacks its line ends or a
/// closing quote, and would be read into memory as a whole.
const ROW_BYTES_MAX: u64 = 64 << 20;

/// The bytes at the start of a text file from which its encoding is guessed.
const SNIFFED_BYTES: u64 = 4096;

/// A data format, chosen by the end of a file's name.
pub(super) struct Format {
    extensions: &'static [&'static str],
    /// Text may be compressed; the other formats compress by themselves.
    is_text: bool,
    pub(super) sharing: Sharing,
    /// Whether `datasets` passes over an empty file among others.
    pub(super) skips_empty: bool,
    pub(super) open: Open,
}

/// Opens a file, of which it reads what it needs to know the columns.
type Open = fn(&Path, &FormatOptions) -> Result<Box<dyn DataFile>>;

/// The columns of other files that a file may lack: its rows have missing values there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sharing {
    None,
    /// The columns of the first file, whose schema `datasets` takes.
    First,
    Any,
}

impl Format {
    pub(super) fn name(&self) -> &'static str {
        self.extensions[0]
    }
}

/// Settings that the files themselves do not state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FormatOptions {
    /// The rules of CSV and TSV.
    pub csv: CsvOptions,
    /// The encoding of CSV, TSV, JSON lines and plain text; UTF-8 without.
    pub encoding: Option<Encoding>,
    /// Rows of plain text end with their line breaks, and blank lines are rows.
    pub keep_linebreaks: bool,
}

/// An open data file. Each part can be read on its own, by any thread.
pub(super) trait DataFile: Send + Sync {
    /// All column names, in file order.
    fn columns(&self) -> Result<Vec<String>>;

    /// The number of parts that can be read in parallel.
    fn parts(&self) -> usize {
        1
    }

    /// The number of rows, if it is known without reading them.
    fn rows(&self) -> Option<u64> {
        None
    }

    /// The names of a column's classes, for formats in which `datasets` notes them.
    fn class_names(&self, column: &str) -> Option<Vec<String>> {
        let _ = column;
        None
    }

    /// The line, from 1, of a row that starts at `mark`, for formats that have lines. For errors
    /// only: it may read the file again.
    fn line(&self, mark: u64) -> Option<u64> {
        let _ = mark;
        None
    }

    /// The file of a row, by its path from the folder that was opened, where each row is a file.
    fn file_of_row(&self, row: u64) -> Option<&Path> {
        let _ = row;
        None
    }

    /// Entries of a folder that are no rows, in words. They are known once it is open.
    fn left_out(&self) -> Vec<String> {
        Vec::new()
    }

    /// Problems of rows that were read nevertheless, or left out.
    fn warnings(&self) -> Vec<String> {
        Vec::new()
    }

    /// Hands the rows of one part to `sink`, in order, at most [`RECORDS_MAX`] at a time, and of
    /// long ones about [`RECORDS_BYTES_MAX`].
    fn read(&self, part: usize, columns: &[&str], sink: Sink<'_>) -> Result<()>;

    /// Hands the rows to `sink` that are wanted, by their numbers in the file. May hand over others too, where it takes
    /// as long to leave them out.
    fn read_some(
        &self,
        part: usize,
        columns: &[&str],
        is_wanted: &dyn Fn(u64) -> bool,
        sink: Sink<'_>,
    ) -> Result<()> {
        let _ = is_wanted;
        self.read(part, columns, sink)
    }
}

/// The rows of a columnar file to read at a time, if `rows` have `bytes`. The sizes that a file
/// states may be wrong, so the result has bounds.
fn rows_at_a_time(rows: u64, bytes: u64) -> usize {
    let each = bytes / rows.max(1);
    (RECORDS_BYTES_MAX as u64 / each.max(1)).clamp(1, RECORDS_MAX as u64) as usize
}

static FORMATS: [Format; 7] = [
    of_text(&["csv"], csv::open),
    of_text(&["tsv"], csv::open_tab),
    of_json(&["jsonl", "ndjson"], json::open_lines),
    of_json(&["json"], json::open_either),
    Format { skips_empty: true, ..of_text(&["txt"], text::open) },
    of_columns(&["parquet", "pq"], parquet::open),
    of_columns(&["arrow", "feather"], arrow::open),
];

/// A format of text whose files have the same columns.
const fn of_text(extensions: &'static [&'static str], open: Open) -> Format {
    Format { extensions, is_text: true, sharing: Sharing::None, skips_empty: false, open }
}

const fn of_json(extensions: &'static [&'static str], open: Open) -> Format {
    Format { sharing: Sharing::Any, skips_empty: true, ..of_text(extensions, open) }
}

const fn of_columns(extensions: &'static [&'static str], open: Open) -> Format {
    Format { is_text: false, sharing: Sharing::First, ..of_text(extensions, open) }
}

/// The names of all formats, each also its usual extension.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    FORMATS.iter().map(Format::name)
}

/// The format that the end of the file's name stands for.
pub(super) fn of_path(path: &Path) -> Result<&'static Format> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let matches = |format: &&Format| {
        let name = if format.is_text { without_compression(&name) } else { &name };
        format.extensions.iter().any(|extension| name.ends_with(&format!(".{extension}")))
    };
    FORMATS.iter().find(matches).ok_or_else(|| {
        let known = FORMATS.iter().flat_map(|format| format.extensions);
        let known = known.map(|extension| format!(".{extension}")).collect::<Vec<_>>().join(", ");
        let known = format!("{known}, text also in {}{}", COMPRESSIONS.join(" or "), remedy(&name));
        Error::UnknownFormat { file: path.to_path_buf(), known }
    })
}

/// Ends of names of files that are often at hand, with what to make of them.
const OTHERS: [(&[&str], &str); 4] = [
    (&["xlsx", "xls", "ods"], "; save the sheet as CSV"),
    (&["zip", "tar", "tgz", "tar.gz", "bz2", "xz", "7z"], "; unpack it"),
    (
        &["pkl", "pickle", "npy", "npz", "h5", "hdf5", "sqlite", "db", "orc", "avro", "dta", "sav"],
        "; write its rows to Parquet, as pandas' to_parquet does",
    ),
    (
        &["conll", "conllu", "bio", "iob"],
        "; write a line for each sentence, with lists of its words and their labels: {\"tokens\": [...], \"labels\": \
         [...]}",
    ),
];

/// Says what to make of a file by the end of its name.
fn remedy(name: &str) -> &'static str {
    let ends = |extensions: &&[&str]| {
        extensions.iter().any(|extension| name.ends_with(&format!(".{extension}")))
    };
    OTHERS.iter().find(|(extensions, _)| ends(extensions)).map_or("", |(_, remedy)| remedy)
}

/// Opens text, decompressed and in UTF-8. UTF-16 that nobody declared is an error, and so are files of zeros: these may
/// pass for characters of UTF-8.
fn open_decoded(path: &Path, encoding: Option<Encoding>) -> Result<Box<dyn Read>> {
    let mut file = open_text(path)?;
    if let Some(encoding) = encoding {
        return Ok(encoding.decode(file));
    }
    let mut start = Vec::new();
    let read = file.by_ref().take(SNIFFED_BYTES).read_to_end(&mut start);
    read.map_err(Error::io(path, "read"))?;
    if let Some(end) = missing_end(&start) {
        let message = format!("it is compressed, but its name does not end in {end}");
        return Err(Error::bad_file(path, "text", message));
    }
    if let Some(problem) = encoding::problem_of_zeros(&start) {
        return Err(Error::bad_file(path, "text", problem));
    }
    if encoding::is_utf16(&start) {
        let looks_like = encoding::looks_like(&start);
        return Err(Error::Encoding { file: path.to_path_buf(), looks_like });
    }
    Ok(Box::new(Cursor::new(start).chain(file)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn no_two_formats_share_an_extension() {
        let extensions: Vec<_> = FORMATS.iter().flat_map(|format| format.extensions).collect();
        assert_eq!(extensions.iter().collect::<BTreeSet<_>>().len(), extensions.len());
    }
}
