//! Every format's rows, and every bad file's error.

mod columns;
mod files;
mod json;
mod json_columns;
mod lines;
mod tables;

use crate::error::Result;
use crate::source::{Files, FormatOptions, Source, Value};
use crate::testing::DataFolder;

/// A row as its number in its file, its line and its cells.
type FoundRow = (u64, Option<u64>, Vec<Value>);

fn open(patterns: &[impl AsRef<str>]) -> Result<Source> {
    Source::open(&patterns.iter().map(|pattern| pattern.as_ref().to_owned()).collect())
}

/// All rows of `columns`.
fn read(patterns: &[&str], columns: &[&str]) -> Result<Vec<FoundRow>> {
    read_as(FormatOptions::default(), patterns, columns)
}

/// All rows of `columns` in files that need options.
fn read_as(format: FormatOptions, patterns: &[&str], columns: &[&str]) -> Result<Vec<FoundRow>> {
    let files = patterns.iter().map(|pattern| (*pattern).to_owned()).collect();
    let source = Source::open(&Files { format, ..files })?;
    source.require_columns(columns)?;
    let mut rows = Vec::new();
    for part in source.parts() {
        source.read(part, columns, &mut |records| {
            rows.extend((0..records.len()).map(|record| {
                let cells = columns.iter().map(|column| records.cell(column, record).clone());
                let line = source.location(part, &records, record).line;
                (records.row(record), line, cells.collect())
            }));
            Ok(())
        })?;
    }
    Ok(rows)
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

#[track_caller]
fn check_text_rows(name: &str, content: &str, expect: &[(u64, &str, &str)]) {
    let folder = DataFolder::new();
    let rows = read(&[&folder.write(name, content)], &["text", "label"]).unwrap();
    let expect = (0u64..)
        .zip(expect)
        .map(|(row, (line, first, second))| (row, Some(*line), vec![text(first), text(second)]));
    assert_eq!(rows, expect.collect::<Vec<_>>());
}

#[track_caller]
fn check_error(name: &str, content: impl AsRef<[u8]>, expect: &str) {
    let folder = DataFolder::new();
    let error = read(&[&folder.write(name, content)], &["text", "label"]).unwrap_err();
    assert_eq!(folder.shown(&error), expect);
    assert_eq!(error.file(), Some(folder.path(name).as_path()));
}
