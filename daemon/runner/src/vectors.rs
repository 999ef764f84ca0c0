//! Vectors of texts: those that a job wrote as predictions, which become safetensors or stand beside their texts, and
//! the search for the nearest ones.
//!
//! Imports nothing.

mod rows;
mod search;

use std::collections::BTreeSet;
use std::fs::File;
use std::path::Path;

use anyhow::{Context as _, ensure};
use arrow_array::cast::AsArray as _;
use arrow_array::types::Float32Type;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use safetensors::Dtype;
use safetensors::tensor::TensorView;
use traind_wording::counted_as;

pub(crate) use rows::write as write_rows;
pub(crate) use search::{Candidate, nearest, similarity};

/// Rows that are read at a time.
const ROWS: usize = 4096;
/// Rows that an error names of those without vectors.
const NAMED_MAX: usize = 5;

/// The vectors of a column of texts, one behind the other.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Vectors {
    pub width: usize,
    pub values: Vec<f32>,
}

impl Vectors {
    pub(crate) fn len(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    pub(crate) fn of(&self, place: usize) -> &[f32] {
        &self.values[place * self.width..(place + 1) * self.width]
    }
}

/// Reads the columns of vectors of a file of predictions, by their names. All vectors of a column are of one length.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<(String, Vectors)>> {
    let reading = || format!("read {}", path.display());
    let file = File::open(path).with_context(reading)?;
    let reader = ParquetRecordBatchReaderBuilder::try_new(file).with_context(reading)?;
    let names = reader.schema().fields().iter().map(|field| field.name().clone());
    let mut columns: Vec<(String, Vectors)> =
        names.map(|name| (name, Vectors::default())).collect();
    let (mut missing, mut first_row) = (BTreeSet::new(), 0);
    for batch in reader.with_batch_size(ROWS).build().with_context(reading)? {
        let batch = batch.with_context(reading)?;
        for (column, (name, vectors)) in batch.columns().iter().zip(&mut columns) {
            let lists = column.as_list_opt::<i32>();
            let lists =
                lists.with_context(|| format!("{}: {name} has no vectors", path.display()))?;
            for (row, list) in lists.iter().enumerate() {
                let Some(list) = list else {
                    missing.insert(first_row + row);
                    continue;
                };
                let row = list.as_primitive::<Float32Type>();
                let is_first = vectors.values.is_empty();
                ensure!(
                    is_first || row.values().len() == vectors.width,
                    "{}: {name} has vectors of different lengths",
                    path.display()
                );
                vectors.width = row.values().len();
                vectors.values.extend_from_slice(row.values());
            }
        }
        first_row += batch.num_rows();
    }
    ensure!(missing.is_empty(), "{}: {}", path.display(), about_missing(&missing));
    Ok(columns)
}

/// The rows without vectors in words, with the first numbers.
fn about_missing(rows: &BTreeSet<usize>) -> String {
    let named: Vec<String> = rows.iter().take(NAMED_MAX).map(usize::to_string).collect();
    let more = if rows.len() > NAMED_MAX { ", …" } else { "" };
    format!(
        "{} no vectors, since texts are missing there (row {}{more}): fill them in, or remove these rows",
        counted_as(rows.len(), "row has", "rows have"),
        named.join(", ")
    )
}

/// Writes a tensor f32[rows, width] for each column.
pub(crate) fn write(columns: &[(String, Vectors)], path: &Path) -> anyhow::Result<()> {
    let writing = || format!("write {}", path.display());
    let bytes = columns.iter().map(|(_, vectors)| {
        vectors.values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>()
    });
    let bytes: Vec<Vec<u8>> = bytes.collect();
    let views = columns.iter().zip(&bytes).map(|((name, vectors), bytes)| {
        let shape = vec![vectors.len(), vectors.width];
        Ok((name.as_str(), TensorView::new(Dtype::F32, shape, bytes)?))
    });
    let views = views.collect::<Result<Vec<_>, safetensors::SafeTensorError>>();
    let file = safetensors::serialize(views.with_context(writing)?, None).with_context(writing)?;
    traind_durable::replace(path, &file).with_context(writing)
}

#[cfg(test)]
mod tests {
    use safetensors::SafeTensors;

    use super::*;
    use crate::output::{Predictions, number_lists};

    #[test]
    fn each_column_of_vectors_becomes_a_tensor() {
        let folder = tempfile::tempdir().unwrap();
        let rows = [vec![1.0, 2.0], vec![3.0, 4.0], vec![5.0, 6.0]];
        let predictions = Predictions::default()
            .with("a", number_lists(rows.clone()))
            .with("b", number_lists(rows.map(|row| vec![row[0]])));
        predictions.write(folder.path()).unwrap();
        let columns = read(&folder.path().join("predictions.parquet")).unwrap();
        let a = Vectors { width: 2, values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] };
        assert_eq!((a.of(1), columns[0].0.as_str(), &columns[0].1), (&[3.0, 4.0][..], "a", &a));
        let path = folder.path().join("vectors.safetensors");
        write(&columns, &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        let tensors = SafeTensors::deserialize(&bytes).unwrap();
        let b = tensors.tensor("b").unwrap();
        assert_eq!((b.dtype(), b.shape()), (Dtype::F32, &[3, 1][..]));
        let expect: Vec<u8> = [1.0f32, 3.0, 5.0].iter().flat_map(|it| it.to_le_bytes()).collect();
        assert_eq!(b.data(), expect);
    }

    /// Predictions keep their places where rows lack a text, which no tensor can.
    #[test]
    fn rows_without_vectors_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let predictions = Predictions::default().with("a", number_lists([vec![1.0], vec![2.0]]));
        predictions.at(&[Some(0), None, Some(1), None]).unwrap().write(folder.path()).unwrap();
        let error = read(&folder.path().join("predictions.parquet")).unwrap_err().to_string();
        let expect = "2 rows have no vectors, since texts are missing there (row 1, 3)";
        assert!(error.contains(expect), "{error}");
    }

    #[test]
    fn columns_that_are_no_vectors_are_refused() {
        let check = |predictions: Predictions, expect: &str| {
            let folder = tempfile::tempdir().unwrap();
            predictions.write(folder.path()).unwrap();
            let error = read(&folder.path().join("predictions.parquet")).unwrap_err().to_string();
            assert!(error.ends_with(expect), "{error}");
        };
        let lists = number_lists([vec![1.0], vec![1.0, 2.0]]);
        check(Predictions::default().with("a", lists), "a has vectors of different lengths");
        let texts = arrow_array::StringArray::from_iter_values(["x"]);
        check(Predictions::default().with("a", std::sync::Arc::new(texts)), "a has no vectors");
    }
}
