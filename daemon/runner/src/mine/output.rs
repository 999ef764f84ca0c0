//! The file of rows: JSON lines, or Parquet where its name ends so.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, bail, ensure};
use arrow_array::builder::{Float64Builder, Int64Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use serde_json::Value as Json;
use traind_loader::data_format;

/// Why there is no file.
const NO_ROWS: &str = "no text is a negative of any query within the limits, and Parquet has its columns of rows: loosen \
                       the limits, or give more texts";
/// Rows of a row group.
const GROUP_ROWS: usize = 16_384;

/// A file that rows are written to one by one.
pub(super) enum RowFile {
    Lines(BufWriter<File>),
    Parquet(Box<ParquetRows>),
}

/// Rows that are put together to row groups.
pub(super) struct ParquetRows {
    file: Option<File>,
    /// Known with the first rows.
    writer: Option<ArrowWriter<File>>,
    rows: Vec<Json>,
}

impl RowFile {
    /// Creates the file `aside` in the format that the end of `output` says.
    pub(super) fn create(aside: &Path, output: &Path) -> anyhow::Result<RowFile> {
        let file = File::create(aside)?;
        Ok(match data_format(output) {
            Some("parquet") => {
                let rows = ParquetRows { file: Some(file), writer: None, rows: Vec::new() };
                RowFile::Parquet(Box::new(rows))
            }
            _ => RowFile::Lines(BufWriter::new(file)),
        })
    }

    /// Writes a row. All rows have the same columns.
    pub(super) fn write(&mut self, row: Json) -> anyhow::Result<()> {
        match self {
            RowFile::Lines(out) => Ok(writeln!(out, "{row}")?),
            RowFile::Parquet(rows) => rows.write(row),
        }
    }

    /// Writes what is left.
    pub(super) fn finish(self) -> anyhow::Result<()> {
        match self {
            RowFile::Lines(mut out) => Ok(out.flush()?),
            RowFile::Parquet(mut rows) => {
                rows.flush()?;
                let writer = rows.writer.context(NO_ROWS)?;
                writer.close()?;
                Ok(())
            }
        }
    }
}

impl ParquetRows {
    fn write(&mut self, row: Json) -> anyhow::Result<()> {
        self.rows.push(row);
        if self.rows.len() < GROUP_ROWS { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> anyhow::Result<()> {
        let rows = std::mem::take(&mut self.rows);
        let Some(first) = rows.first().and_then(Json::as_object) else { return Ok(()) };
        let columns = first.keys().map(|name| {
            let values: Vec<&Json> = rows.iter().map(|row| &row[name]).collect();
            Ok((name, column(&values).with_context(|| format!("write column {name:?}"))?))
        });
        let columns = columns.collect::<anyhow::Result<Vec<_>>>()?;
        let batch = RecordBatch::try_from_iter(columns)?;
        if let Some(file) = self.file.take() {
            self.writer = Some(ArrowWriter::try_new(file, batch.schema(), None)?);
        }
        let writer = self.writer.as_mut().context("open the file")?;
        writer.write(&batch)?;
        Ok(writer.flush()?)
    }
}

/// The values of a column, of the type of the first.
fn column(values: &[&Json]) -> anyhow::Result<ArrayRef> {
    let first = values.first().context("a column has values")?;
    Ok(match first {
        Json::String(_) => {
            Arc::new(StringArray::from_iter(values.iter().map(|value| value.as_str())))
        }
        Json::Number(number) if number.is_f64() => {
            Arc::new(Float64Array::from_iter(values.iter().map(|value| value.as_f64())))
        }
        Json::Number(_) => {
            Arc::new(Int64Array::from_iter(values.iter().map(|value| value.as_i64())))
        }
        Json::Array(items) => lists(items.first(), values)?,
        other => bail!("no column has values such as {other}"),
    })
}

/// The lists of a column, whose items have the type of `first`.
fn lists(first: Option<&Json>, values: &[&Json]) -> anyhow::Result<ArrayRef> {
    let items = |value: &Json| value.as_array().cloned().unwrap_or_default();
    ensure!(first.is_some(), "a list has items");
    Ok(match first {
        Some(Json::String(_)) => {
            let mut builder = ListBuilder::new(StringBuilder::new());
            for value in values {
                items(value).iter().for_each(|item| builder.values().append_option(item.as_str()));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
        Some(Json::Number(number)) if number.is_f64() => {
            let mut builder = ListBuilder::new(Float64Builder::new());
            for value in values {
                items(value).iter().for_each(|item| builder.values().append_option(item.as_f64()));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
        _ => {
            let mut builder = ListBuilder::new(Int64Builder::new());
            for value in values {
                items(value).iter().for_each(|item| builder.values().append_option(item.as_i64()));
                builder.append(true);
            }
            Arc::new(builder.finish())
        }
    })
}
