//! Rows to train on: texts, and in the label the vectors of all of them.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use arrow_array::builder::{Float32Builder, ListBuilder};
use arrow_array::{ArrayRef, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use traind_loader::{Files, Source, Value};
use traind_wording::counted;

use super::Vectors;

const LABEL: &str = "label";

/// Writes the texts of `file`, with the vectors of each row one behind the other, as Parquet.
pub(crate) fn write(columns: &[(String, Vectors)], file: &str, path: &Path) -> anyhow::Result<()> {
    let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
    let texts = texts(file, &names)?;
    let rows = columns.first().map_or(0, |(_, vectors)| vectors.len());
    ensure!(
        texts.iter().all(|column| column.len() == rows),
        "{file} has {}, of which {rows} have all of their texts: remove the others",
        counted(texts.first().map_or(0, Vec::len), "row")
    );
    let texts = names.iter().zip(texts).map(|(name, column)| {
        let column: ArrayRef = Arc::new(StringArray::from(column));
        (*name, column)
    });
    let batch = RecordBatch::try_from_iter(texts.chain([(LABEL, labels(columns, rows))]))
        .context("put the rows together")?;
    let writing = || format!("write {}", path.display());
    let mut bytes = Vec::new();
    let mut writer = ArrowWriter::try_new(&mut bytes, batch.schema(), None)?;
    writer.write(&batch).with_context(writing)?;
    writer.close().with_context(writing)?;
    traind_durable::replace(path, &bytes).with_context(writing)
}

/// The vectors of all columns of each row.
fn labels(columns: &[(String, Vectors)], rows: usize) -> ArrayRef {
    let mut builder = ListBuilder::new(Float32Builder::new());
    for row in 0..rows {
        columns.iter().for_each(|(_, vectors)| builder.values().append_slice(vectors.of(row)));
        builder.append(true);
    }
    Arc::new(builder.finish())
}

/// The texts of each column of a file, one for each row.
fn texts(file: &str, columns: &[&str]) -> anyhow::Result<Vec<Vec<Option<String>>>> {
    let source = Source::open(&Files::from_iter([file.to_owned()]))?;
    source.require_columns(columns)?;
    let mut texts: Vec<Vec<Option<String>>> = vec![Vec::new(); columns.len()];
    for part in source.parts() {
        source.read(part, columns, &mut |records| {
            for (column, texts) in columns.iter().zip(&mut texts) {
                texts.extend((0..records.len()).map(|row| text(records.cell(column, row))));
            }
            Ok(())
        })?;
    }
    Ok(texts)
}

fn text(value: &Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text.clone()),
        Value::Int(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_the_vectors_of_their_texts() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pairs.jsonl");
        std::fs::write(&file, "{\"b\": \"x\", \"a\": \"y\"}\n{\"b\": \"z\", \"a\": \"\"}\n")
            .unwrap();
        let (file, path) = (file.to_str().unwrap(), folder.path().join("rows.parquet"));
        let of = |values: &[f32]| Vectors { width: 1, values: values.to_vec() };
        let columns = [("a".to_owned(), of(&[1.0, 2.0])), ("b".to_owned(), of(&[3.0, 4.0]))];
        write(&columns, file, &path).unwrap();
        let written = Source::open(&Files::from_iter([path.to_str().unwrap().to_owned()])).unwrap();
        assert_eq!(written.columns(), ["a", "b", LABEL]);
        let found = texts(path.to_str().unwrap(), &["a", "b"]).unwrap();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(found, [vec![some("y"), some("")], vec![some("x"), some("z")]]);
        let mut labels = Vec::new();
        for part in written.parts() {
            let read = written.read(part, &[LABEL], &mut |records| {
                labels.extend((0..records.len()).map(|row| records.cell(LABEL, row).clone()));
                Ok(())
            });
            read.unwrap();
        }
        let list = |numbers: [f64; 2]| Value::List(numbers.map(Value::Float).to_vec());
        assert_eq!(labels, [list([1.0, 3.0]), list([2.0, 4.0])]);
        let fewer = [("a".to_owned(), of(&[1.0]))];
        let error = write(&fewer, file, &path).unwrap_err().to_string();
        assert!(error.ends_with("2 rows, of which 1 have all of their texts: remove the others"));
    }
}
