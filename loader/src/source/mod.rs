//! The rows of a list of files, in order, whatever their format.
//!
//! A file falls into parts (a Parquet row group, a whole CSV file) that are read independently
//! and in parallel; each part yields its rows as [`Records`], a bounded number at a time.

mod columns;
mod fetch;
mod formats;
mod paths;
mod records;
mod row;
#[cfg(feature = "s3")]
mod s3;
#[cfg(test)]
mod tests;

use std::path::{Path, PathBuf};

pub use columns::{CastType, Columns};
pub use fetch::FetchContext;
pub use records::{Records, Value};
pub(crate) use row::{ImageCell, Row, image_of};

use crate::guard::guard;
use crate::{Error, Location, Result};
use formats::DataFile;
pub use formats::value_of_json;
pub use formats::{CsvOptions, Delimiter, Encoding, FormatOptions, OnBadLines};
use paths::DataPath;

/// Characters in the name of a file's only column that suggest another delimiter.
const OTHER_DELIMITERS: [char; 3] = [';', '\t', '|'];

/// Takes rows, a bounded number at a time.
type Sink<'sink> = &'sink mut dyn FnMut(Records) -> Result<()>;

/// The source of one split's rows.
#[derive(Clone, Debug)]
pub struct Files {
    /// Paths, globs, `datasets` folders and `s3://` URLs, in order.
    pub patterns: Vec<String>,
    /// The part of a `datasets` folder with several: `train`, `validation` or `test`.
    pub split: String,
    pub columns: Columns,
    pub format: FormatOptions,
    /// Objects of buckets are fetched into `<cache_dir>/objects`; None takes the folder for
    /// temporary files.
    pub cache_dir: Option<PathBuf>,
    pub fetch: FetchContext,
}

/// The names of all data formats, each also its usual extension.
pub fn data_formats() -> impl Iterator<Item = &'static str> {
    formats::names()
}

/// The data format that the end of a file's name says, by its usual extension.
pub fn data_format(path: &Path) -> Option<&'static str> {
    formats::of_path(path).ok().map(|format| format.name())
}

/// Files to train on, with their columns as they are.
impl FromIterator<String> for Files {
    fn from_iter<I: IntoIterator<Item = String>>(patterns: I) -> Self {
        Self {
            patterns: patterns.into_iter().collect(),
            split: "train".to_owned(),
            columns: Columns::default(),
            format: FormatOptions::default(),
            cache_dir: None,
            fetch: FetchContext::default(),
        }
    }
}

/// The data files of one split, opened and checked for the columns that will be read.
pub struct Source {
    files: Vec<SourceFile>,
    columns: Columns,
}

struct SourceFile {
    path: DataPath,
    data: Box<dyn DataFile>,
    columns: Vec<String>,
    parts: usize,
    rows: Option<u64>,
    folder: PathBuf,
}

/// One independently readable piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index into [`Source::files`].
    pub file: usize,
    /// Which piece of that file.
    pub index: usize,
}

impl Source {
    /// Opens every file that is named. Reads headers and footers only. A file of an unknown
    /// format, without content or without readable header is an error.
    pub fn open(given: &Files) -> Result<Self> {
        let columns = &given.columns;
        columns.check()?;
        let paths = paths::expand(given)?;
        let open = |path| SourceFile::open(path, given);
        let files = paths.into_iter().map(open).collect::<Result<Vec<_>>>()?;
        Ok(Self { files, columns: columns.clone() })
    }

    /// The files, in data set order, by the names that users know.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|file| file.path.name.as_path())
    }

    /// The local files that hold the bytes.
    pub(crate) fn local_files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|file| file.path.local.as_path())
    }

    /// The column names of the first file.
    pub fn columns(&self) -> &[String] {
        self.files.first().map_or(&[], |file| &file.columns)
    }

    /// The names of a column's classes in each file, where it has any: Arrow and Parquet files that
    /// `datasets` wrote, and folders of images. The numbers of classes are places among those of
    /// their file.
    pub fn class_names(&self, column: &str) -> Vec<Option<Vec<String>>> {
        let column = self.columns.in_file(column);
        self.files.iter().map(|file| file.data.class_names(column)).collect()
    }

    /// The number of rows, if all files state it without being read (Parquet).
    pub fn rows(&self) -> Option<u64> {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Checks that every file has each column exactly once.
    pub fn require_columns(&self, columns: &[&str]) -> Result<()> {
        let pairs =
            self.files.iter().flat_map(|file| columns.iter().map(move |name| (file, *name)));
        pairs.into_iter().try_for_each(|(file, name)| file.require_column(name))
    }

    /// All parts, in data set order.
    pub fn parts(&self) -> Vec<Part> {
        let files = self.files.iter().enumerate();
        files
            .flat_map(|(file, opened)| (0..opened.parts).map(move |index| Part { file, index }))
            .collect()
    }

    /// The location of record number `record` of `records`, which came from `part`.
    pub fn location(&self, part: Part, records: &Records, record: usize) -> Location {
        let file = &self.files[part.file];
        let line = records.mark(record).and_then(|mark| file.data.line(mark));
        Location { file: file.path.name.clone(), row: records.row(record), line }
    }

    /// Problems of rows that were read nevertheless, or left out, each with its file.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let of_file = |file: &SourceFile| {
            let name = file.path.name.display().to_string();
            file.data.warnings().into_iter().map(move |warning| format!("{name}: {warning}"))
        };
        self.files.iter().flat_map(of_file).collect()
    }

    /// The folder that paths in the rows of a part begin at: that of its file, or the folder itself
    /// that holds the rows.
    pub(crate) fn folder(&self, part: Part) -> &Path {
        &self.files[part.file].folder
    }

    /// Hands the rows of one part to `sink`, a bounded number at a time, with `columns` in the order
    /// asked for. Returns the number of rows.
    pub fn read(
        &self,
        part: Part,
        columns: &[&str],
        sink: &mut dyn FnMut(Records) -> Result<()>,
    ) -> Result<u64> {
        let (data, mut rows) = (&self.files[part.file].data, 0);
        let mut count = |records: Records| {
            rows += records.len() as u64;
            sink(records)
        };
        let read = |in_file: &[&str], sink: Sink<'_>| data.read(part.index, in_file, sink);
        self.read_with(part, columns, &read, &mut count)?;
        Ok(rows)
    }

    /// Hands the rows `rows` of a file that lie in one part to `sink`, each by itself. They are given
    /// in ascending order.
    pub(crate) fn read_some(
        &self,
        part: Part,
        columns: &[&str],
        rows: &[u64],
        sink: Sink<'_>,
    ) -> Result<()> {
        let data = &self.files[part.file].data;
        let is_wanted = |row: u64| rows.binary_search(&row).is_ok();
        let read = |in_file: &[&str], sink: Sink<'_>| {
            data.read_some(part.index, in_file, &is_wanted, sink)
        };
        self.read_with(part, columns, &read, &mut |records| {
            let wanted = (0..records.len()).filter(|record| is_wanted(records.row(*record)));
            wanted.map(|record| records.one(record)).try_for_each(&mut *sink)
        })
    }

    /// Hands on the rows that `read` reads of columns by their names in the file.
    fn read_with(
        &self,
        part: Part,
        columns: &[&str],
        read: &dyn Fn(&[&str], Sink<'_>) -> Result<()>,
        sink: Sink<'_>,
    ) -> Result<()> {
        let file = &self.files[part.file];
        let in_file: Vec<&str> = columns.iter().map(|name| self.columns.in_file(name)).collect();
        let read = guard(&file.path.name, "decode", || {
            read(
                &in_file,
                &mut |records| match in_file == columns && self.columns.cast.is_empty() {
                    true => sink(records),
                    false => sink(self.converted(part, &records, columns)?),
                },
            )
        });
        read.map_err(|error| file.path.renamed(error))
    }

    /// `records` by the names that the caller knows, with the values cast.
    fn converted(&self, part: Part, records: &Records, columns: &[&str]) -> Result<Records> {
        records.converted(columns, |column, record, value| {
            let Some(kind) = self.columns.cast_of(column) else {
                return Ok(value.clone());
            };
            kind.apply(value).map_err(|found| Error::Cast {
                at: self.location(part, records, record),
                column: column.to_owned(),
                found: columns::shown(found),
                kind: kind.name(),
            })
        })
    }
}

impl DataPath {
    /// Replaces the local path in an error by the name that users know.
    fn renamed(&self, error: Error) -> Error {
        match error.file() == Some(self.local.as_path()) {
            true => error.renamed(&self.name),
            false => error,
        }
    }
}

impl SourceFile {
    fn open(path: DataPath, given: &Files) -> Result<Self> {
        let opened = Self::try_open(&path.local, given);
        let (data, columns) = opened.map_err(|error| path.renamed(error))?;
        let (parts, rows) = (data.parts(), data.rows());
        let local = path.local.as_path();
        let folder = if local.is_dir() { Some(local) } else { local.parent() };
        let folder = folder.unwrap_or(local).to_path_buf();
        Ok(Self { path, data, columns, parts, rows, folder })
    }

    fn try_open(path: &Path, given: &Files) -> Result<(Box<dyn DataFile>, Vec<String>)> {
        let metadata = std::fs::metadata(path).map_err(Error::io(path, "open"))?;
        let file = path.to_path_buf();
        if metadata.is_dir() {
            let images = formats::image_folder::open(path)?.ok_or(Error::IsFolder { file })?;
            let columns = given.columns.apply(images.columns()?);
            return Ok((images, columns));
        }
        let format = formats::of_path(path)?;
        if metadata.len() == 0 {
            return Err(Error::EmptyFile { file });
        }
        guard(path, "read the header", || {
            let data = (format.open)(path, &given.format)?;
            let columns = given.columns.apply(data.columns()?);
            Ok((data, columns))
        })
    }

    fn require_column(&self, column: &str) -> Result<()> {
        let (file, column) = (self.path.name.clone(), column.to_owned());
        match self.columns.iter().filter(|name| **name == column).count() {
            1 => Ok(()),
            0 => Err(Error::MissingColumn { file, column, available: self.available() }),
            count => Err(Error::DuplicateColumn { file, column, count }),
        }
    }

    /// The columns, for an error.
    fn available(&self) -> String {
        match self.columns.as_slice() {
            [one] if one.contains(OTHER_DELIMITERS) => {
                format!("{one:?} (is data.delimiter right?)")
            }
            columns => columns.join(", "),
        }
    }
}
