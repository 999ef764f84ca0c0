//! Parquet: a row group is a part, so that a file is decoded by several threads, and only the
//! columns asked for are read. The reader panics on some malformed files; [`crate::guard`] stands
//! around every call.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parquet::arrow::arrow_reader::{
    ArrowReaderMetadata, ArrowReaderOptions, ParquetRecordBatchReader,
};
use parquet::arrow::{ProjectionMask, parquet_to_arrow_field_levels};

use super::arrow::{NOTED_AS, check_types, class_names, hand_on};
use super::parquet_chunks::RowGroup;
use super::parquet_pages::{Pages, dictionary_bytes};
use super::parquet_schema;
use super::{DataFile, FormatOptions, rows_at_a_time};
use crate::error::{Error, Result};
use crate::source::Sink;

/// The most bytes that rows read at a time may take by repeating what a dictionary has once. Writers make dictionaries
/// of 1 MiB at most.
const REPEATED_BYTES_MAX: u64 = 256 << 20;

/// Files of up to so many rows may have any size. Larger ones have bytes for their rows, which a few bytes could
/// otherwise stand for any number of.
const ROWS_MAX: u64 = 1 << 24;
const ROWS_PER_BYTE_MAX: u64 = 64;
/// The memory of a value, at least.
const VALUE_BYTES: u64 = 8;

struct ParquetFile {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

pub(super) fn open(path: &Path, _options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    Ok(Box::new(open_file(path)?))
}

fn open_file(path: &Path) -> Result<ParquetFile> {
    let file = File::open(path).map_err(Error::io(path, "open"))?;
    let depth = parquet_schema::depth(&file).map_err(Error::io(path, "read"))?;
    if let Some(depth) = depth.filter(|depth| *depth > parquet_schema::DEPTH_MAX) {
        let message = format!("its schema has {depth} levels, of {}", parquet_schema::DEPTH_MAX);
        return Err(Error::bad_file(path, "Parquet", message));
    }
    // With the Arrow schema that a file may carry beside its own, the reader takes columns of bytes
    // for text without checking that they are UTF-8: undefined behaviour on a damaged file.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let metadata = ArrowReaderMetadata::load(&file, options);
    let metadata = metadata.map_err(|error| Error::bad_file(path, "Parquet", error))?;
    let opened = ParquetFile { path: path.to_path_buf(), metadata };
    let bytes = file.metadata().map_err(Error::io(path, "read"))?.len();
    let rows = opened.rows_before(opened.parts())?;
    if rows > ROWS_MAX.max(bytes.saturating_mul(ROWS_PER_BYTE_MAX)) {
        return Err(Error::bad_file(path, "Parquet", format!("{rows} rows in {bytes} bytes")));
    }
    Ok(opened)
}

impl DataFile for ParquetFile {
    fn columns(&self) -> Result<Vec<String>> {
        let fields = self.metadata.schema().fields();
        Ok(fields.iter().map(|field| field.name().clone()).collect())
    }

    fn class_names(&self, column: &str) -> Option<Vec<String>> {
        let pairs = self.metadata.metadata().file_metadata().key_value_metadata()?;
        let noted = pairs.iter().find(|pair| pair.key == NOTED_AS)?;
        class_names(noted.value.as_deref()?, column)
    }

    fn parts(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    fn rows(&self) -> Option<u64> {
        self.rows_before(self.parts()).ok()
    }

    fn read(&self, part: usize, columns: &[&str], sink: Sink<'_>) -> Result<()> {
        let bad_file =
            |error: &dyn std::fmt::Display| Error::bad_file(&self.path, "Parquet", error);
        let file = File::open(&self.path).map_err(Error::io(&self.path, "open"))?;
        let schema = self.metadata.schema();
        // The reader would make room for values that are not taken, too.
        check_types(&self.path, "Parquet", schema, columns)?;
        let roots = schema.fields().iter().enumerate();
        let wanted = roots.filter(|(_, field)| columns.contains(&field.name().as_str()));
        let wanted: Vec<usize> = wanted.map(|(root, _)| root).collect();
        let rows_at_a_time = self.rows_at_a_time(part, &wanted, &file);
        let pages = Pages::new(file, self.metadata.metadata());
        let group = RowGroup {
            pages,
            metadata: Arc::clone(self.metadata.metadata()),
            part,
            rows_at_a_time,
        };
        let schema = self.metadata.parquet_schema();
        let wanted = ProjectionMask::roots(schema, wanted);
        let levels = parquet_to_arrow_field_levels(schema, wanted, None);
        let levels = levels.map_err(|error| bad_file(&error))?;
        let reader = ParquetRecordBatchReader::try_new_with_row_groups(
            &levels,
            &group,
            rows_at_a_time,
            None,
        );
        let (mut row, end) = (self.rows_before(part)?, self.rows_before(part + 1)?);
        let wrong = |found: &str| {
            let number = part + 1;
            bad_file(&format_args!("row group {number} has {found} rows than the footer states"))
        };
        for batch in reader.map_err(|error| bad_file(&error))? {
            let batch = batch.map_err(|error| bad_file(&error))?;
            let first = row;
            row += batch.num_rows() as u64;
            if row > end {
                return Err(wrong("more"));
            }
            hand_on(&self.path, "Parquet", &batch, first, columns, sink)?;
        }
        if row < end { Err(wrong("fewer")) } else { Ok(()) }
    }
}

impl ParquetFile {
    /// The rows of a row group to read at a time, by the sizes that the file states for the wanted
    /// root columns, and by their dictionaries, all of which each row may repeat.
    fn rows_at_a_time(&self, part: usize, wanted: &[usize], file: &File) -> usize {
        let schema = self.metadata.parquet_schema();
        let group = self.metadata.metadata().row_group(part);
        let columns = group.columns().iter().enumerate();
        let columns =
            columns.filter(|(leaf, _)| wanted.contains(&schema.get_column_root_idx(*leaf)));
        let (mut bytes, mut longest) = (0u64, 1);
        for (_, column) in columns {
            // Values that repeat take next to no space.
            let values = (column.num_values().max(0) as u64).saturating_mul(VALUE_BYTES);
            bytes = bytes.saturating_add(values.max(column.uncompressed_size().max(0) as u64));
            let start = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
            let dictionary = u64::try_from(start).ok().and_then(|it| dictionary_bytes(file, it));
            longest = longest.max(dictionary.unwrap_or(0));
        }
        let rows = rows_at_a_time(group.num_rows().max(0) as u64, bytes);
        rows.min((REPEATED_BYTES_MAX / longest).max(1) as usize)
    }

    /// Rows in the row groups before `part`.
    fn rows_before(&self, part: usize) -> Result<u64> {
        let groups = &self.metadata.metadata().row_groups()[..part];
        let rows = groups.iter().map(|group| u64::try_from(group.num_rows()));
        let rows = rows.sum::<Result<u64, _>>();
        rows.map_err(|_| Error::bad_file(&self.path, "Parquet", "a negative row count"))
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::types::Int32Type;
    use arrow_array::{BinaryArray, DictionaryArray, Int32Array, RecordBatch, StringArray};
    use arrow_schema::{DataType, Field, Schema};
    use parquet::arrow::arrow_writer::ArrowWriterOptions;
    use parquet::arrow::{ARROW_SCHEMA_META_KEY, ArrowWriter, encode_arrow_schema};
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::{WriterProperties, WriterVersion};

    use super::super::parquet_schema::tests::nested_file;
    use super::*;
    use crate::source::Value;
    use crate::source::records::RECORDS_MAX;
    use crate::testing::DataFolder;

    /// A schema of so many levels overflows the stack of a reader that descends by calls.
    #[test]
    fn a_deep_schema_is_refused() {
        let folder = DataFolder::new();
        let open = |depth| {
            let path = folder.write("a.parquet", nested_file(depth));
            open(Path::new(&path), &FormatOptions::default()).map(drop)
        };
        open(20).unwrap();
        let error = folder.shown(&open(200_000).unwrap_err());
        assert!(error.contains("its schema has 200002 levels, of 64"), "{error}");
    }

    /// A file of one batch.
    fn written(batch: &RecordBatch, properties: WriterProperties) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new(&mut bytes, batch.schema(), Some(properties)).unwrap();
        writer.write(batch).unwrap();
        writer.close().unwrap();
        bytes
    }

    /// A small file has a text of 8 MiB in each of its rows.
    #[test]
    fn rows_that_repeat_a_long_text_are_read_some_at_a_time() {
        let texts = StringArray::from(vec!["x".repeat(8 << 20)]);
        let keys = Int32Array::from(vec![0; 100]);
        let column = DictionaryArray::new(keys, Arc::new(texts));
        let batch = RecordBatch::try_from_iter([("text", Arc::new(column) as _)]).unwrap();
        let properties = WriterProperties::builder()
            .set_compression(parquet::basic::Compression::SNAPPY)
            .set_dictionary_page_size_limit(64 << 20)
            .build();
        let bytes = written(&batch, properties);
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        let folder = DataFolder::new();
        let path = folder.write("a.parquet", bytes);
        let parquet = open_file(Path::new(&path)).unwrap();
        let file = File::open(&path).unwrap();
        assert_eq!(parquet.rows_at_a_time(0, &[0], &file), 31, "a dictionary has lengths, too");
        assert_eq!(parquet.rows_at_a_time(0, &[], &file), RECORDS_MAX);
    }

    /// The reader looks at the next page to know whether a row ends with the page before.
    #[test]
    fn lists_are_read_over_several_pages() {
        let rows = 1_000;
        let lists = (0..rows).map(|row| Some((0..row % 50).map(move |item| Some(row * item))));
        let lists = arrow_array::ListArray::from_iter_primitive::<Int32Type, _, _>(lists);
        let batch = RecordBatch::try_from_iter([("items", Arc::new(lists) as _)]).unwrap();
        let folder = DataFolder::new();
        for version in [WriterVersion::PARQUET_1_0, WriterVersion::PARQUET_2_0] {
            let properties = WriterProperties::builder()
                .set_writer_version(version)
                .set_data_page_size_limit(2_000)
                .set_write_batch_size(20)
                .build();
            let path = folder.write("a.parquet", written(&batch, properties));
            let (file, mut row) = (open_file(Path::new(&path)).unwrap(), 0);
            let read = file.read(0, &["items"], &mut |records| {
                for record in 0..records.len() {
                    let expect = (0..row % 50).map(|item| Value::Int(i64::from(row * item)));
                    let expect = Value::List(expect.collect());
                    assert_eq!(records.cell("items", record), &expect);
                    row += 1;
                }
                Ok(())
            });
            read.unwrap();
            assert_eq!(row, rows);
        }
    }

    /// A file of one column of bytes that are not text, with one entry of metadata.
    fn file_of_bytes(noted: (&str, String)) -> Vec<u8> {
        let column = BinaryArray::from_vec(vec![b"caf\xe9"]);
        let batch = RecordBatch::try_from_iter([("text", Arc::new(column) as _)]).unwrap();
        let noted = vec![KeyValue::new(noted.0.to_owned(), noted.1)];
        let properties = WriterProperties::builder().set_key_value_metadata(Some(noted)).build();
        let options =
            ArrowWriterOptions::new().with_properties(properties).with_skip_arrow_metadata(true);
        let mut bytes = Vec::new();
        let mut writer =
            ArrowWriter::try_new_with_options(&mut bytes, batch.schema(), options).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
        bytes
    }

    #[test]
    fn bytes_are_not_text_because_an_arrow_schema_says_so() {
        let folder = DataFolder::new();
        let schema = Schema::new(vec![Field::new("text", DataType::Utf8, true)]);
        let noted = (ARROW_SCHEMA_META_KEY, encode_arrow_schema(&schema));
        let path = folder.write("a.parquet", file_of_bytes(noted));
        let file = open(Path::new(&path), &FormatOptions::default()).unwrap();
        let read = file.read(0, &["text"], &mut |records| {
            assert_eq!(records.cell("text", 0), &Value::Bytes(b"caf\xe9".to_vec()));
            Ok(())
        });
        read.unwrap();
    }

    #[test]
    fn names_of_classes_are_those_that_datasets_notes() {
        let folder = DataFolder::new();
        let feature = |names: &str| format!(r#"{{"names": {names}, "_type": "ClassLabel"}}"#);
        let noted = format!(
            r#"{{"info": {{"features": {{"label": {}, "tags": {{"feature": {}, "_type": "List"}}}}}}}}"#,
            feature(r#"["neg", "pos"]"#),
            feature(r#"["O", "B-X"]"#)
        );
        let path = folder.write("a.parquet", file_of_bytes((NOTED_AS, noted)));
        let file = open(Path::new(&path), &FormatOptions::default()).unwrap();
        assert_eq!(file.class_names("label"), Some(vec!["neg".to_owned(), "pos".to_owned()]));
        assert_eq!(file.class_names("tags"), Some(vec!["O".to_owned(), "B-X".to_owned()]));
        assert_eq!(file.class_names("text"), None);
    }
}
