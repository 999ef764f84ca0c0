//! Parquet: a row group is a part, so that a file is decoded by several threads, and only the
//! columns asked for are read. The reader panics on some malformed files; [`crate::guard`] stands
//! around every call.

use std::fs::File;
use std::path::{Path, PathBuf};

use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::{ArrowReaderMetadata, ParquetRecordBatchReaderBuilder};

use super::arrow::{class_names, records};
use super::{DataFile, FormatOptions, rows_at_a_time};
use crate::source::Records;
use crate::{Error, Result};

struct ParquetFile {
    path: PathBuf,
    metadata: ArrowReaderMetadata,
}

pub(super) fn open(path: &Path, _options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    let file = File::open(path).map_err(Error::io(path, "open"))?;
    let metadata = ArrowReaderMetadata::load(&file, Default::default());
    let metadata = metadata.map_err(|error| Error::bad_file(path, "Parquet", error))?;
    Ok(Box::new(ParquetFile { path: path.to_path_buf(), metadata }))
}

impl DataFile for ParquetFile {
    fn columns(&self) -> Result<Vec<String>> {
        let fields = self.metadata.schema().fields();
        Ok(fields.iter().map(|field| field.name().clone()).collect())
    }

    fn class_names(&self, column: &str) -> Option<Vec<String>> {
        class_names(self.metadata.schema(), column)
    }

    fn parts(&self) -> usize {
        self.metadata.metadata().num_row_groups()
    }

    fn rows(&self) -> Option<u64> {
        self.rows_before(self.parts()).ok()
    }

    fn read(
        &self,
        part: usize,
        columns: &[&str],
        sink: &mut dyn FnMut(Records) -> Result<()>,
    ) -> Result<()> {
        let bad_file =
            |error: &dyn std::fmt::Display| Error::bad_file(&self.path, "Parquet", error);
        let file = File::open(&self.path).map_err(Error::io(&self.path, "open"))?;
        let roots = self.metadata.schema().fields().iter().enumerate();
        let wanted = roots.filter(|(_, field)| columns.contains(&field.name().as_str()));
        let wanted: Vec<usize> = wanted.map(|(root, _)| root).collect();
        let rows_at_a_time = self.rows_at_a_time(part, &wanted);
        let wanted = ProjectionMask::roots(self.metadata.parquet_schema(), wanted);
        let reader =
            ParquetRecordBatchReaderBuilder::new_with_metadata(file, self.metadata.clone())
                .with_projection(wanted)
                .with_row_groups(vec![part])
                .with_batch_size(rows_at_a_time)
                .build()
                .map_err(|error| bad_file(&error))?;
        let mut row = self.rows_before(part)?;
        for batch in reader {
            let batch = batch.map_err(|error| bad_file(&error))?;
            sink(records(&self.path, "Parquet", &batch, row, columns)?)?;
            row += batch.num_rows() as u64;
        }
        Ok(())
    }
}

impl ParquetFile {
    /// Of a row group, by the bytes that its wanted root columns say they have.
    fn rows_at_a_time(&self, part: usize, wanted: &[usize]) -> usize {
        let schema = self.metadata.parquet_schema();
        let group = self.metadata.metadata().row_group(part);
        let columns = group.columns().iter().enumerate();
        let columns =
            columns.filter(|(leaf, _)| wanted.contains(&schema.get_column_root_idx(*leaf)));
        let bytes = columns.map(|(_, column)| column.uncompressed_size().max(0) as u64);
        rows_at_a_time(group.num_rows().max(0) as u64, bytes.sum())
    }

    /// Rows in the row groups before `part`.
    fn rows_before(&self, part: usize) -> Result<u64> {
        let groups = &self.metadata.metadata().row_groups()[..part];
        let rows = groups.iter().map(|group| u64::try_from(group.num_rows()));
        let rows = rows.sum::<Result<u64, _>>();
        rows.map_err(|_| Error::bad_file(&self.path, "Parquet", "a negative row count"))
    }
}
