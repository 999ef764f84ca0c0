//! The rows of a list of files, in order, whatever their format.
//!
//! A file falls into parts (a Parquet row group, a whole CSV file) that are read independently
//! and in parallel; each part yields its rows as [`Records`], a bounded number at a time.

mod columns;
mod data_path;
mod fetch;
mod file;
mod formats;
mod paths;
mod place;
mod records;
mod row;
#[cfg(feature = "s3")]
mod s3;
mod split_names;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::path::{Path, PathBuf};

pub use columns::{CastType, Columns};
pub use fetch::FetchContext;
pub(crate) use place::Place;
pub(crate) use records::truth_of_text;
pub use records::{Records, Value};
pub(crate) use row::{ImageCell, Row, image_of};

use crate::error::{Error, Location, Result};
use crate::guard::guard;
use file::SourceFile;
use formats::DataFile;
pub(crate) use formats::class_folder::texts as texts_of_folder;
pub use formats::value_of_json;
pub use formats::{CsvOptions, Delimiter, Encoding, FormatOptions, OnBadLines};
pub use paths::matching_files;
use records::Sink;
pub use split_names::{names_split, split_names};

/// The source of one split's rows.
#[derive(Clone, Debug)]
pub struct Files {
    /// Paths, globs, `datasets` folders and `s3://` URLs, in order.
    pub patterns: Vec<String>,
    /// The part of a `datasets` folder with several: `train`, `validation` or `test`.
    pub split: String,
    /// The columns that are read, renamed, cast or left out.
    pub columns: Columns,
    /// The settings of formats.
    pub format: FormatOptions,
    /// Objects of buckets are fetched into `<cache_dir>/objects`; None takes the folder for
    /// temporary files.
    pub cache_dir: Option<PathBuf>,
    /// The means by which objects of buckets are fetched.
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
    /// The names of the columns of all files, each once.
    names: Vec<String>,
    /// Files without content, which were passed over.
    empty: Vec<PathBuf>,
}

/// One independently readable piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// Index into [`Source::files`].
    pub file: usize,
    /// The piece of that file.
    pub index: usize,
}

impl Source {
    /// Opens every file that is named. Reads headers and footers, and JSON as a whole for its keys. A
    /// file of an unknown format or without readable header is an error, and so is one without content,
    /// unless it is among others of a format in which `datasets` passes over it.
    pub fn open(given: &Files) -> Result<Self> {
        let columns = &given.columns;
        columns.check()?;
        let paths = paths::expand(given)?;
        let (mut files, mut empty) = (Vec::new(), Vec::new());
        for path in paths {
            match SourceFile::open(path, given) {
                Err(Error::EmptyFile { file }) if file::may_be_empty(&file) => empty.push(file),
                opened => files.push(opened?),
            }
        }
        if let (true, Some(file)) = (files.is_empty(), empty.first()) {
            return Err(Error::EmptyFile { file: file.clone() });
        }
        let mut known = HashSet::new();
        let names = files.iter().flat_map(|file: &SourceFile| &file.columns);
        let names = names.filter(|name| known.insert(*name)).cloned().collect();
        Ok(Self { files, columns: columns.clone(), names, empty })
    }

    /// The files, in data set order, by the names that users know.
    pub fn files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|file| file.path.name.as_path())
    }

    /// The local files that hold the bytes.
    pub(crate) fn local_files(&self) -> impl ExactSizeIterator<Item = &Path> {
        self.files.iter().map(|file| file.path.local.as_path())
    }

    /// The names of the columns of all files, each once.
    pub fn columns(&self) -> &[String] {
        &self.names
    }

    /// The names of a column's classes in each file, where it has any: Arrow and Parquet files that
    /// `datasets` wrote, and folders of images. The numbers of classes are places among those of
    /// their file.
    pub fn class_names(&self, column: &str) -> Vec<Option<Vec<String>>> {
        let names = |file: &SourceFile| {
            file.data.class_names(file.own_name(&self.columns, column).unwrap_or(column))
        };
        self.files.iter().map(names).collect()
    }

    /// The number of rows, if all files state it without being read (Parquet).
    pub fn rows(&self) -> Option<u64> {
        self.files.iter().map(|file| file.rows).sum()
    }

    /// Returns false where no file has a row. A file whose first rows cannot be read may have some.
    pub(crate) fn may_have_rows(&self) -> bool {
        if let Some(rows) = self.rows() {
            return rows > 0;
        }
        let column: Vec<&str> = self.columns().iter().map(String::as_str).take(1).collect();
        let mut enough = |records: Records| match records.len() {
            0 => Ok(()),
            _ => Err(Error::Abandoned),
        };
        self.parts().into_iter().any(|part| self.read(part, &column, &mut enough).is_err())
    }

    /// Hands the rows to `take`, some at a time, with the part that they are from, until it returns false. Fails where
    /// rows before that cannot be read.
    pub(crate) fn read_until(
        &self,
        columns: &[&str],
        mut take: impl FnMut(Part, &Records) -> bool,
    ) -> Result<()> {
        let mut wants_more = true;
        for part in self.parts() {
            let mut hand = |records: Records| {
                wants_more = take(part, &records);
                if wants_more { Ok(()) } else { Err(Error::Abandoned) }
            };
            let read = self.read(part, columns, &mut hand);
            if !wants_more {
                return Ok(());
            }
            read?;
        }
        Ok(())
    }

    /// Checks that every file has each column exactly once, or lacks one that its format lets it
    /// lack. The error names all columns that a file lacks.
    pub fn require_columns(&self, columns: &[&str]) -> Result<()> {
        let columns = &self.columns.with_parts(columns);
        for file in &self.files {
            let mut lacked = None;
            for name in columns {
                let other = self.files.iter().find(|other| other.has(name));
                match (file.require_column(name, other, &self.files[0]), &mut lacked) {
                    (Ok(()), _) => {}
                    (Err(error), None) => lacked = Some(error),
                    (Err(error), Some(first)) => first.add_column(&error),
                }
            }
            lacked.map_or(Ok(()), Err)?;
        }
        Ok(())
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
        self.location_of(Place::new(part, records, record))
    }

    /// The location of a record of which only the place is kept. Counts the lines of some files up to there: for errors
    /// alone.
    pub(crate) fn location_of(&self, place: Place) -> Location {
        let Place { part, row, mark } = place;
        let file = &self.files[part.file];
        if let Some(own) = self.file_of_row(part, row) {
            return Location::of_row(&file.path.name.join(own), 0);
        }
        let line = mark.and_then(|mark| file.data.line(mark));
        Location { file: file.path.name.clone(), row, line }
    }

    /// The file of a row in a folder whose files are rows, by its path from the folder.
    pub(crate) fn file_of_row(&self, part: Part, row: u64) -> Option<&Path> {
        self.files[part.file].data.file_of_row(row)
    }

    /// Files that were passed over, since they have no content.
    pub(crate) fn empty_files(&self) -> &[PathBuf] {
        &self.empty
    }

    /// Entries of folders that are no rows, each with the number of its folder among the files.
    pub(crate) fn left_out(&self) -> impl Iterator<Item = (usize, String)> {
        self.of_files(|data| data.left_out())
    }

    /// Problems of rows that were read nevertheless, or left out, each with the number of its file.
    pub(crate) fn warnings(&self) -> impl Iterator<Item = (usize, String)> {
        self.of_files(|data| data.warnings())
    }

    fn of_files(
        &self,
        warnings: impl Fn(&dyn DataFile) -> Vec<String>,
    ) -> impl Iterator<Item = (usize, String)> {
        let files = self.files.iter().enumerate();
        files.flat_map(move |(number, file)| {
            warnings(file.data.as_ref()).into_iter().map(move |warning| (number, warning))
        })
    }

    /// The folder that paths in the rows of a part begin at: that of its file, or the folder itself
    /// that holds the rows.
    pub(crate) fn folder(&self, part: Part) -> &Path {
        &self.files[part.file].folder
    }

    /// Hands the rows of one part to `sink`, a bounded number at a time, with `columns` in the order
    /// asked for. Returns the number of rows.
    pub fn read(&self, part: Part, columns: &[&str], sink: Sink<'_>) -> Result<u64> {
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
        if columns.iter().any(|name| self.columns.parts_of(name).is_some()) {
            let parts = self.columns.with_parts(columns);
            return self.read_with(part, &parts, read, &mut |records| {
                // Parts have their types, and those of lists are theirs.
                let element = |part: &str, value: &Value| match self.columns.cast_of(part) {
                    Some(_) => value.clone(),
                    None => columns::element(value),
                };
                let parts_of = |name: &str| self.columns.parts_of(name);
                let records = records.with_lists(columns, parts_of, element);
                let is_list = |name: &str| self.columns.parts_of(name).is_some();
                sink(self.converted(part, &records, columns, is_list)?)
            });
        }
        let file = &self.files[part.file];
        let own: Vec<Option<&str>> =
            columns.iter().map(|name| file.own_name(&self.columns, name)).collect();
        let in_file = file.to_read(&own);
        let is_as_asked = in_file == columns && self.columns.cast.is_empty();
        let read = guard(&file.path.name, "decode", || {
            read(&in_file, &mut |records| match is_as_asked {
                true => sink(records),
                false => sink(self.converted(part, &records.arranged(&own), columns, |_| true)?),
            })
        });
        read.map_err(|error| file.path.renamed(error))
    }

    /// `records` by the names that the caller knows, with the values cast of the columns that `is_meant` names.
    fn converted(
        &self,
        part: Part,
        records: &Records,
        columns: &[&str],
        is_meant: impl Fn(&str) -> bool,
    ) -> Result<Records> {
        records.converted(columns, |column, record, value| {
            let Some(kind) = self.columns.cast_of(column).filter(|_| is_meant(column)) else {
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
