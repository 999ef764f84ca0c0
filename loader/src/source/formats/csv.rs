//! CSV and TSV with a header row: fields quoted with `"` may hold delimiters, line breaks and
//! doubled quotes (RFC 4180). Unlike the parser underneath, this refuses rows of another width
//! than the header's, text that is not UTF-8, and a quote that is never closed.

use std::cell::Cell;
use std::io::{BufReader, Chain, Read};
use std::path::{Path, PathBuf};

use csv::{ByteRecord, Reader, ReaderBuilder};

use super::encoding::{Encoding, looks_like};
use super::{DataFile, FormatOptions, ROW_BYTES_MAX, open_decoded};
use crate::source::{Records, Value};
use crate::{Error, Location, Result};

/// A row appended to every file. If it does not come back as a row, the file ends inside quotes,
/// which the parser would accept silently, with half the file as one field.
const END_MARK: &[u8] = b"\n\0end of file\0";

type MarkedReader = Reader<RowLimit<Chain<Box<dyn Read>, &'static [u8]>>>;

/// Fails once the parser has read more than one row may have without finding its end.
struct RowLimit<R> {
    inner: R,
    bytes_left: Cell<u64>,
}

impl<R> RowLimit<R> {
    fn begin_row(&self) {
        self.bytes_left.set(ROW_BYTES_MAX);
    }
}

impl<R: Read> Read for RowLimit<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        if self.bytes_left.get() == 0 {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        let read = self.inner.read(buffer)?;
        self.bytes_left.set(self.bytes_left.get().saturating_sub(read as u64));
        Ok(read)
    }
}

struct CsvFile {
    path: PathBuf,
    delimiter: u8,
    encoding: Option<Encoding>,
}

pub(super) fn open(path: &Path, options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    let delimiter = options.delimiter.unwrap_or(b',');
    Ok(Box::new(CsvFile { path: path.to_path_buf(), delimiter, encoding: options.encoding }))
}

pub(super) fn open_tab(path: &Path, options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    open(path, &FormatOptions { delimiter: Some(b'\t'), ..*options })
}

impl DataFile for CsvFile {
    fn columns(&self) -> Result<Vec<String>> {
        self.header(&mut self.reader()?)
    }

    /// Rows are marked with the byte at which their parser began, which may be a line end or a
    /// blank line before them: the parser's own line count is off by those.
    fn line(&self, mark: u64) -> Option<u64> {
        let mut bytes = BufReader::new(open_decoded(&self.path, self.encoding).ok()?)
            .bytes()
            .map_while(std::result::Result::ok);
        let before = bytes.by_ref().take(mark as usize).filter(|&byte| byte == b'\n').count();
        let blank = bytes.take_while(|byte| b"\r\n".contains(byte));
        Some((1 + before + blank.filter(|&byte| byte == b'\n').count()) as u64)
    }

    fn read(
        &self,
        _part: usize,
        columns: &[&str],
        sink: &mut dyn FnMut(Records) -> Result<()>,
    ) -> Result<()> {
        let mut reader = self.reader()?;
        let header = self.header(&mut reader)?;
        let wanted = self.places(&header, columns)?;
        let mut records = Records::new(0, columns);
        let mut row = ByteRecord::new();
        while self.next_row(&mut reader, &mut row, &records)? {
            let fields = checked_fields(&row, &header, || self.location(&records, &row))?;
            let cells = wanted.iter().map(|&place| value(fields[place]));
            records.push(mark(&row), cells, sink)?;
        }
        sink(records)
    }
}

impl CsvFile {
    fn reader(&self) -> Result<MarkedReader> {
        let file = open_decoded(&self.path, self.encoding)?;
        let mut builder = ReaderBuilder::new();
        builder
            .delimiter(self.delimiter)
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 16);
        let bytes_left = Cell::new(ROW_BYTES_MAX);
        Ok(builder.from_reader(RowLimit { inner: file.chain(END_MARK), bytes_left }))
    }

    fn header(&self, reader: &mut MarkedReader) -> Result<Vec<String>> {
        let mut header = ByteRecord::new();
        if !self.next_row(reader, &mut header, &Records::default())? {
            return Err(Error::EmptyFile { file: self.path.clone() });
        }
        let name = |name: &[u8]| {
            let text = std::str::from_utf8(name).map(str::to_owned);
            text.map_err(|_| Error::Encoding {
                file: self.path.clone(),
                looks_like: looks_like(name),
            })
        };
        header.iter().map(name).collect()
    }

    /// Reads the next row; false at the end mark.
    fn next_row(
        &self,
        reader: &mut MarkedReader,
        row: &mut ByteRecord,
        before: &Records,
    ) -> Result<bool> {
        reader.get_ref().begin_row();
        let found = reader.read_byte_record(row).map_err(|error| match error.into_kind() {
            csv::ErrorKind::Io(source) if source.kind() == std::io::ErrorKind::FileTooLarge => {
                Error::RowTooLong { at: self.location(before, row), max: ROW_BYTES_MAX }
            }
            csv::ErrorKind::Io(source) => Error::io(&self.path, "read")(source),
            kind => self.bad_file(&format!("{kind:?}")),
        })?;
        let mark = &END_MARK[1..];
        let last = row.iter().next_back().unwrap_or_default();
        match found && last.ends_with(mark) {
            true if row.len() == 1 && last.len() == mark.len() => Ok(false),
            true => Err(Error::UnclosedQuote { at: self.location(before, row) }),
            false => Ok(found),
        }
    }

    fn places(&self, header: &[String], columns: &[&str]) -> Result<Vec<usize>> {
        let place = |column: &&str| {
            let place = header.iter().position(|name| name == column);
            place.ok_or_else(|| Error::MissingColumn {
                file: self.path.clone(),
                column: (*column).to_owned(),
                available: header.join(", "),
            })
        };
        columns.iter().map(place).collect()
    }

    /// The place of `row`, which comes after `records`.
    fn location(&self, records: &Records, row: &ByteRecord) -> Location {
        let (file, line) = (self.path.clone(), self.line(mark(row)));
        Location { file, row: records.row(records.len()), line }
    }

    fn bad_file(&self, message: &str) -> Error {
        Error::bad_file(&self.path, "CSV", message)
    }
}

fn mark(row: &ByteRecord) -> u64 {
    row.position().map_or(0, csv::Position::byte)
}

/// All fields of a row as text: as many as the header has, each of them UTF-8.
fn checked_fields<'row>(
    row: &'row ByteRecord,
    header: &[String],
    at: impl Fn() -> Location,
) -> Result<Vec<&'row str>> {
    if row.len() != header.len() {
        return Err(Error::FieldCount { at: at(), expected: header.len(), found: row.len() });
    }
    let fields = row.iter().zip(header).map(|(field, column)| {
        let text = std::str::from_utf8(field);
        text.map_err(|_| Error::InvalidUtf8 {
            at: at(),
            column: column.clone(),
            looks_like: looks_like(field),
        })
    });
    fields.collect()
}

/// CSV knows no types and no NULL: an empty field is a missing value.
fn value(field: &str) -> Value {
    match field {
        "" => Value::Null,
        text => Value::Text(text.to_owned()),
    }
}
