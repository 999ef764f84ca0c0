//! Records to rows of one width: the header, lines with too many fields, and index columns.

use std::io::{BufRead, BufReader, Read};

use super::tokenizer::{Record, TokenError, Tokenizer};
use super::{CsvFile, OnBadLines};
use crate::error::{Error, Location, Result};
use crate::source::formats::ROW_BYTES_MAX;
use crate::source::formats::encoding::looks_like;
use crate::source::formats::lines::BYTE_ORDER_MARK;

/// The rows of a file behind its header.
pub(super) struct Rows<'file> {
    file: &'file CsvFile,
    input: BufReader<Box<dyn Read>>,
    tokenizer: Tokenizer<'file>,
    columns: Vec<String>,
    /// The first row, which was read with the header since its width counts.
    first: Option<Record>,
    /// Fields before those of the columns. pandas takes them for an index where the first row has
    /// more fields than there are names.
    leading: usize,
    /// The most fields that a row may have.
    width: usize,
}

impl<'file> Rows<'file> {
    /// Reads the header and the first row.
    pub(super) fn begin(file: &'file CsvFile, input: Box<dyn Read>) -> Result<Self> {
        let tokenizer = Tokenizer::new(&file.options, file.delimiter);
        let (input, columns, first) = (BufReader::with_capacity(1 << 16, input), Vec::new(), None);
        let mut rows = Self { file, input, tokenizer, columns, first, leading: 0, width: 0 };
        rows.skip_byte_order_mark()?;
        let names = rows.read_names()?;
        let mut first = Record::default();
        let has_rows = rows.read_record(&mut first, 0)?;
        let (given, found) = (names.len(), if has_rows { first.len() } else { 0 });
        rows.columns = names;
        rows.leading = found.saturating_sub(given);
        rows.width = found.max(given);
        rows.first = has_rows.then_some(first);
        Ok(rows)
    }

    pub(super) fn columns(&self) -> &[String] {
        &self.columns
    }

    /// A row's field of the column at `place`; empty if the row is too short.
    pub(super) fn field<'record>(&self, record: &'record Record, place: usize) -> &'record [u8] {
        record.field(self.leading + place)
    }

    /// Reads the next row. `row` is its number, for errors.
    pub(super) fn next(&mut self, record: &mut Record, row: &dyn Fn() -> u64) -> Result<bool> {
        if let Some(first) = self.first.take() {
            *record = first;
            return Ok(true);
        }
        while self.read_record(record, row())? {
            if record.len() <= self.width {
                return Ok(true);
            }
            let at = || self.location(record, row());
            if self.file.options.on_bad_lines == OnBadLines::Error {
                let (expected, found) = (self.width, record.len());
                return Err(Error::FieldCount { at: at(), expected, found });
            }
            self.file.bad_lines.add(|| at().line);
        }
        Ok(false)
    }

    fn skip_byte_order_mark(&mut self) -> Result<()> {
        let start = self.input.fill_buf().map_err(Error::io(&self.file.path, "read"))?;
        if start.starts_with(BYTE_ORDER_MARK) {
            self.input.consume(BYTE_ORDER_MARK.len());
            self.tokenizer.skip(BYTE_ORDER_MARK.len() as u64);
        }
        Ok(())
    }

    /// The names of the columns, given or from the header. Records before the header are left out.
    fn read_names(&mut self) -> Result<Vec<String>> {
        let options = &self.file.options;
        let mut names = options.names.clone();
        let Some(header) = options.header else { return Ok(names) };
        let mut record = Record::default();
        for _ in 0..=header {
            if !self.read_record(&mut record, 0)? {
                return Err(Error::EmptyFile { file: self.file.path.clone() });
            }
        }
        if names.is_empty() {
            let fields = (0..record.len()).map(|index| self.name(record.field(index)));
            names = fields.collect::<Result<_>>()?;
        }
        Ok(names)
    }

    fn name(&self, field: &[u8]) -> Result<String> {
        let text = std::str::from_utf8(field).map(str::to_owned);
        text.map_err(|_| Error::Encoding {
            file: self.file.path.clone(),
            looks_like: looks_like(field),
        })
    }

    fn read_record(&mut self, record: &mut Record, row: u64) -> Result<bool> {
        let read = self.tokenizer.next(&mut self.input, record);
        read.map_err(|error| match error {
            TokenError::Io(source) => Error::io(&self.file.path, "read")(source),
            TokenError::UnclosedQuote => Error::UnclosedQuote { at: self.location(record, row) },
            TokenError::EscapeAtEnd => {
                Error::bad_file(&self.file.path, "CSV", "it ends with data.escapechar")
            }
            TokenError::TooLong => {
                Error::RowTooLong { at: self.location(record, row), max: ROW_BYTES_MAX }
            }
        })
    }

    fn location(&self, record: &Record, row: u64) -> Location {
        use crate::source::formats::DataFile;
        Location { file: self.file.path.clone(), row, line: self.file.line(record.mark) }
    }
}
