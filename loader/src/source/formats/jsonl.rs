//! JSON Lines: one object a line. Blank lines are skipped and do not count as rows. The columns
//! are the keys of the first object; a key that a later one lacks is a missing value.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::encoding::Encoding;
use super::lines::{Blank, Line, lines, some_lines};
use super::{DataFile, FormatOptions, nested_json};
use crate::source::{Records, Value};
use crate::{Error, Result};

/// Numbers that `json.dumps` of Python writes.
const NUMBERS_OF_PYTHON: [&str; 3] = ["NaN", "-Infinity", "Infinity"];

struct JsonLinesFile {
    path: PathBuf,
    encoding: Option<Encoding>,
}

pub(super) fn open(path: &Path, options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    Ok(Box::new(JsonLinesFile { path: path.to_path_buf(), encoding: options.encoding }))
}

/// A `.json` file is either JSON Lines too, or one document: a list of rows, or one under `data`.
pub(super) fn open_either(path: &Path, options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    nested_json::open(path)?.map_or_else(|| open(path, options), Ok)
}

impl DataFile for JsonLinesFile {
    fn columns(&self) -> Result<Vec<String>> {
        match lines(&self.path, self.encoding, Blank::Skipped)?.next() {
            Some(first) => Ok(object(first?)?.into_iter().map(|(key, _)| key).collect()),
            None => Err(Error::EmptyFile { file: self.path.clone() }),
        }
    }

    /// Rows are marked with their lines.
    fn line(&self, mark: u64) -> Option<u64> {
        Some(mark)
    }

    fn read(
        &self,
        _part: usize,
        columns: &[&str],
        sink: &mut dyn FnMut(Records) -> Result<()>,
    ) -> Result<()> {
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
        sink: &mut dyn FnMut(Records) -> Result<()>,
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

/// The number of a line, and the values of its object's `columns`.
fn row(line: Line, columns: &[&str]) -> Result<(u64, Vec<Value>)> {
    let (number, mut object) = (line.number(), object(line)?);
    let cells = columns.iter().map(|column| object.remove(*column).map_or(Value::Null, value));
    Ok((number, cells.collect()))
}

fn object(line: Line) -> Result<Map<String, Json>> {
    let (at, text) = (line.at, line.text);
    let parsed = serde_json::from_str(&text).or_else(|error| {
        let standard = without_numbers_of_python(&text).ok_or(error)?;
        serde_json::from_str(&standard)
    });
    match parsed {
        Ok(Json::Object(object)) => Ok(object),
        Ok(other) => Err(Error::BadRow { message: not_an_object(&other), at }),
        Err(error) => Err(Error::BadRow { message: not_json(&text, &error), at }),
    }
}

/// The line with a missing value for each number that Python writes and JSON does not have; `None` without
/// any.
fn without_numbers_of_python(text: &str) -> Option<String> {
    let (mut standard, mut rest, mut in_string) = (String::new(), text, false);
    while let Some(next) = rest.chars().next() {
        let number = NUMBERS_OF_PYTHON.iter().find(|number| rest.starts_with(**number));
        let (taken, written) = match (in_string, next, number) {
            (false, _, Some(number)) => (number.len(), "null"),
            // The character after the backslash does not end the string.
            (true, '\\', _) => {
                let escaped = rest[1..].chars().next().map_or(0, char::len_utf8);
                (1 + escaped, &rest[..1 + escaped])
            }
            _ => (next.len_utf8(), &rest[..next.len_utf8()]),
        };
        in_string ^= next == '"';
        standard.push_str(written);
        rest = &rest[taken..];
    }
    (standard != text).then_some(standard)
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
        "[" | "{" => "expected one JSON object a line; this is JSON over several lines".to_owned(),
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
