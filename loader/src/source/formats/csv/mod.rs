//! CSV and TSV as pandas reads them: see [`CsvOptions`]. Values are text, or missing where a field is
//! empty. Unlike pandas, this refuses text that is not UTF-8.

mod bad_lines;
mod options;
mod rows;
mod sniff;
#[cfg(test)]
mod tests;
mod tokenizer;

use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

pub use options::{CsvOptions, Delimiter, OnBadLines};

use super::encoding::{Encoding, looks_like};
use super::{DataFile, FormatOptions, open_decoded};
use crate::error::{Error, Location, Result};
use crate::source::{Records, Sink, Value};
use bad_lines::BadLines;
use rows::Rows;
use tokenizer::Record;

struct CsvFile {
    path: PathBuf,
    options: CsvOptions,
    delimiter: u8,
    encoding: Option<Encoding>,
    bad_lines: BadLines,
}

pub(super) fn open(path: &Path, options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    open_with(path, options, b',')
}

pub(super) fn open_tab(path: &Path, options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    open_with(path, options, b'\t')
}

fn open_with(path: &Path, format: &FormatOptions, usual: u8) -> Result<Box<dyn DataFile>> {
    let options = format.csv.clone();
    let delimiter = match options.delimiter {
        None => usual,
        Some(Delimiter::Byte(byte)) => byte,
        Some(Delimiter::Auto) => {
            let file = open_decoded(path, format.encoding)?;
            sniff::delimiter(file, &options).map_err(Error::io(path, "read"))?
        }
    };
    let bad_lines = BadLines::new(options.on_bad_lines);
    let (path, encoding) = (path.to_path_buf(), format.encoding);
    Ok(Box::new(CsvFile { path, options, delimiter, encoding, bad_lines }))
}

impl DataFile for CsvFile {
    fn columns(&self) -> Result<Vec<String>> {
        Ok(self.rows()?.columns().to_vec())
    }

    /// Rows are marked with the byte at which they begin.
    fn line(&self, mark: u64) -> Option<u64> {
        let file = BufReader::new(open_decoded(&self.path, self.encoding).ok()?);
        let before = file.bytes().map_while(std::result::Result::ok).take(mark as usize);
        Some(1 + before.filter(|&byte| byte == b'\n').count() as u64)
    }

    fn warnings(&self) -> Vec<String> {
        self.bad_lines.warning().into_iter().collect()
    }

    fn read(&self, _part: usize, columns: &[&str], sink: Sink<'_>) -> Result<()> {
        self.bad_lines.begin();
        let mut rows = self.rows()?;
        let wanted = self.places(rows.columns(), columns)?;
        let mut records = Records::new(0, columns);
        let mut record = Record::default();
        while rows.next(&mut record, &|| records.row(records.len()))? {
            let cells = wanted.iter().map(|&place| {
                let field = rows.field(&record, place);
                self.value(field).map_err(|_| Error::InvalidUtf8 {
                    at: self.location(&records, &record),
                    column: rows.columns()[place].clone(),
                    looks_like: looks_like(field),
                })
            });
            let cells = cells.collect::<Result<Vec<Value>>>()?;
            records.push(record.mark, cells, sink)?;
        }
        sink(records)
    }
}

impl CsvFile {
    /// The rows behind the header.
    fn rows(&self) -> Result<Rows<'_>> {
        Rows::begin(self, open_decoded(&self.path, self.encoding)?)
    }

    fn places(&self, header: &[String], columns: &[&str]) -> Result<Vec<usize>> {
        let place = |column: &&str| {
            let place = header.iter().position(|name| name == column);
            place.ok_or_else(|| Error::MissingColumns {
                file: self.path.clone(),
                columns: vec![(*column).to_owned()],
                available: header.join(", "),
            })
        };
        columns.iter().map(place).collect()
    }

    /// CSV knows no types and no NULL: an empty field is a missing value.
    fn value(&self, field: &[u8]) -> Result<Value, std::str::Utf8Error> {
        let text = std::str::from_utf8(field)?;
        if text.is_empty() || self.options.na_values.iter().any(|missing| missing == text) {
            return Ok(Value::Null);
        }
        Ok(Value::Text(self.options.number(text).unwrap_or_else(|| text.to_owned())))
    }

    /// The place of `record`, which comes after `records`.
    fn location(&self, records: &Records, record: &Record) -> Location {
        let (file, line) = (self.path.clone(), self.line(record.mark));
        Location { file, row: records.row(records.len()), line }
    }
}
