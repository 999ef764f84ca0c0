//! `predictions.parquet`: the model's predictions for the rows of a file, in order.

use std::io;
use std::path::Path;
use std::sync::Arc;

use arrow_array::builder::{Float32Builder, ListBuilder, StringBuilder};
use arrow_array::{ArrayRef, RecordBatch, UInt32Array};
use arrow_select::take::take;
use parquet::arrow::ArrowWriter;

use super::{failed, write};
use crate::error::RunResult;

const FILE_NAME: &str = "predictions.parquet";

/// Named columns of equal length.
#[derive(Debug, Default)]
pub(crate) struct Predictions {
    columns: Vec<(String, ArrayRef)>,
}

impl Predictions {
    /// Adds a column.
    pub(crate) fn with(mut self, name: impl Into<String>, values: ArrayRef) -> Predictions {
        self.columns.push((name.into(), values));
        self
    }

    /// Moves the rows: each row of the result is the row of `self` that `places` names, or has missing values where it
    /// names none.
    pub(crate) fn at(self, places: &[Option<u32>]) -> RunResult<Predictions> {
        let places = UInt32Array::from(places.to_vec());
        let columns = self.columns.into_iter().map(|(name, values)| {
            let values = take(&values, &places, None);
            let failed =
                |error| failed("put in place", Path::new(FILE_NAME))(io::Error::other(error));
            Ok((name, values.map_err(failed)?))
        });
        Ok(Predictions { columns: columns.collect::<RunResult<_>>()? })
    }

    /// Writes the file into a folder.
    pub(crate) fn write(self, folder: &Path) -> RunResult<()> {
        let path = folder.join(FILE_NAME);
        let content = self.encode();
        let content =
            content.map_err(|error| failed("serialize", &path)(io::Error::other(error)))?;
        write(&path, &content)
    }

    fn encode(self) -> Result<Vec<u8>, parquet::errors::ParquetError> {
        let batch = RecordBatch::try_from_iter(self.columns)?;
        let mut bytes = Vec::new();
        let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
        writer.write(&batch)?;
        writer.close()?;
        Ok(bytes)
    }
}

/// Returns a column of lists of texts.
pub(crate) fn text_lists<S: AsRef<str>>(rows: impl IntoIterator<Item = Vec<S>>) -> ArrayRef {
    let mut builder = ListBuilder::new(StringBuilder::new());
    for row in rows {
        row.iter().for_each(|text| builder.values().append_value(text));
        builder.append(true);
    }
    Arc::new(builder.finish())
}

/// Returns a column of lists of numbers.
pub(crate) fn number_lists(rows: impl IntoIterator<Item = Vec<f32>>) -> ArrayRef {
    let mut builder = ListBuilder::new(Float32Builder::new());
    for row in rows {
        builder.values().append_slice(&row);
        builder.append(true);
    }
    Arc::new(builder.finish())
}
