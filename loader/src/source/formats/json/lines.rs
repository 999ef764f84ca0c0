//! JSON Lines: one object a line. Blank lines are skipped and do not count as rows.

use std::path::{Path, PathBuf};

use rayon::prelude::*;
use serde_json::{Map, Value as Json};

use super::column_names::ColumnNames;
use super::python_numbers::replaced;
use crate::error::{Error, Result};
use crate::source::formats::encoding::Encoding;
use crate::source::formats::lines::{Blank, Line, lines, some_lines};
use crate::source::formats::{DataFile, FormatOptions};
use crate::source::{Records, Sink, Value};

/// Bytes of lines whose keys are looked for at a time, by all threads of the pool.
const SCANNED_BYTES: usize = 8 << 20;

/// Lines that a thread looks through at a time.
const SCANNED_LINES: usize = 64;

struct JsonLinesFile {
    path: PathBuf,
    encoding: Option<Encoding>,
}

pub(in crate::source::formats) fn open(
    path: &Path,
    options: &FormatOptions,
) -> Result<Box<dyn DataFile>> {
    Ok(Box::new(JsonLinesFile { path: path.to_path_buf(), encoding: options.encoding }))
}

impl DataFile for JsonLinesFile {
    fn columns(&self) -> Result<Vec<String>> {
        let mut lines = lines(&self.path, self.encoding, Blank::Skipped)?;
        let Some(first) = lines.next() else {
            return Err(Error::EmptyFile { file: self.path.clone() });
        };
        let mut names = ColumnNames::default();
        object(first?)?.keys().for_each(|key| names.add(key));
        add_keys_of(lines, &mut names);
        names.check(&self.path)
    }

    /// Rows are marked with their lines.
    fn line(&self, mark: u64) -> Option<u64> {
        Some(mark)
    }

    fn read(&self, _part: usize, columns: &[&str], sink: Sink<'_>) -> Result<()> {
        let mut records = Records::new(0, columns);
        for line in lines(&self.path, self.encoding, Blank::Skipped)? {
            let (number, cells) = row(line?, columns)?;
            records.push(number, cells, sink)?;
        }
        sink(records)
    }

    /// Parses no other line.
    fn read_some(
        &self,
        _part: usize,
        columns: &[&str],
        is_wanted: &dyn Fn(u64) -> bool,
        sink: Sink<'_>,
    ) -> Result<()> {
        for line in some_lines(&self.path, self.encoding, Blank::Skipped, is_wanted)? {
            let line = line?;
            let mut records = Records::new(line.at.row, columns);
            let (number, cells) = row(line, columns)?;
            records.push(number, cells, sink)?;
            sink(records)?;
        }
        Ok(())
    }
}

/// Adds the keys of all lines up to one that cannot be read. Reading the rows reports that line, and
/// lines that are no objects.
fn add_keys_of(lines: impl Iterator<Item = Result<Line>>, names: &mut ColumnNames) {
    let mut lines = lines.map_while(Result::ok).peekable();
    while lines.peek().is_some() {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        while bytes < SCANNED_BYTES
            && let Some(line) = lines.next()
        {
            bytes += line.text.len();
            batch.push(line.text);
        }
        let found: Vec<ColumnNames> = batch.par_chunks(SCANNED_LINES).map(keys_of).collect();
        found.iter().for_each(|later| names.extend(later));
    }
}

fn keys_of(lines: &[String]) -> ColumnNames {
    let mut names = ColumnNames::default();
    for line in lines {
        if names.add_keys(line).is_err() {
            let standard = replaced(line);
            let _ = standard.map(|line| names.add_keys(&line));
        }
    }
    names
}

/// The number of a line, and the values of its object's `columns`.
fn row(line: Line, columns: &[&str]) -> Result<(u64, Vec<Value>)> {
    let (number, mut object) = (line.number(), object(line)?);
    let cells = columns.iter().map(|column| object.remove(*column).map_or(Value::Null, value));
    Ok((number, cells.collect()))
}

fn object(line: Line) -> Result<Map<String, Json>> {
    let (at, text) = (line.at, line.text);
    let parsed = serde_json::from_str(&text).or_else(|error| {
        let standard = replaced(&text).ok_or(error)?;
        serde_json::from_str(&standard)
    });
    match parsed {
        Ok(Json::Object(object)) => Ok(object),
        Ok(other) => Err(Error::BadRow { message: not_an_object(&other), at }),
        Err(error) => Err(Error::BadRow { message: not_json(&text, &error), at }),
    }
}

fn not_an_object(found: &Json) -> String {
    let found = match found {
        Json::Array(_) => "an array; a file that is one list of rows is called .json",
        Json::String(_) => "a string",
        _ => "a single value",
    };
    format!("expected one JSON object a line, found {found}")
}

fn not_json(text: &str, error: &serde_json::Error) -> String {
    match text.trim() {
        "[" => "expected one JSON object a line; this is a list over several lines, which is read from a file \
                whose name ends in .json"
            .to_owned(),
        "{" => "expected one JSON object a line; this is an object over several lines: write each row on one \
                line, or all rows in one list to a file whose name ends in .json"
            .to_owned(),
        text if text.ends_with("},") => {
            "there is a comma behind the object: a file of one object a line has none, and one that is a list \
             begins with [ and is called .json"
                .to_owned()
        }
        text if text.starts_with("{'") => {
            "this is Python's notation, whose single quotes JSON does not have: write rows with json.dumps".to_owned()
        }
        _ => format!("not JSON: {} at column {}", message_only(error), error.column()),
    }
}

/// The parser's message without its own position, which counts lines within our one line.
fn message_only(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line ").next().unwrap_or(&text).to_owned()
}

/// Converts a JSON value to a cell.
pub fn value(json: Json) -> Value {
    match json {
        Json::Null => Value::Null,
        Json::Bool(flag) => Value::Bool(flag),
        Json::Number(number) => match number.as_i64() {
            Some(integer) => Value::Int(integer),
            None => Value::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::String(text) => Value::Text(text),
        Json::Array(items) => Value::List(items.into_iter().map(value).collect()),
        Json::Object(fields) => {
            Value::Struct(fields.into_iter().map(|(key, field)| (key, value(field))).collect())
        }
    }
}
