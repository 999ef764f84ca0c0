//! An opened data file with its columns.

use std::path::{Path, PathBuf};

use super::data_path::DataPath;
use super::formats::class_folder::is_hidden;
use super::formats::{self, DataFile, Sharing};
use super::split_names::{names_split, split_names};
use super::{Columns, Files};
use crate::error::{Error, Result};
use crate::guard::guard;
use crate::stand_in::stand_in;

/// Characters in the name of a file's only column that suggest another delimiter.
const OTHER_DELIMITERS: [char; 3] = [';', '\t', '|'];

/// The format whose rows are lines.
const PLAIN_TEXT: &str = "txt";

/// Columns that an error names.
const NAMED_MAX: usize = 50;

pub(super) struct SourceFile {
    pub(super) path: DataPath,
    pub(super) data: Box<dyn DataFile>,
    /// The names of the columns in the file.
    own_columns: Vec<String>,
    /// The names after renaming and dropping.
    pub(super) columns: Vec<String>,
    sharing: Sharing,
    pub(super) parts: usize,
    pub(super) rows: Option<u64>,
    pub(super) folder: PathBuf,
}

/// Returns true if a file without content, which may be compressed, is passed over among others.
pub(super) fn may_be_empty(path: &Path) -> bool {
    formats::of_path(path).is_ok_and(|format| format.skips_empty)
}

/// Folders below one that are looked through for data files.
const DEPTH_MAX: usize = 4;

/// Says what to name in place of a folder, by the first data file in it or below.
fn remedy(folder: &Path) -> String {
    let Some(file) = first_data_file(folder, DEPTH_MAX) else {
        return "but neither one that `save_to_disk` of datasets wrote, nor one that has a folder of images or of \
                texts for each class"
            .to_owned();
    };
    let below = file.strip_prefix(folder).unwrap_or(&file);
    let mut pattern = folder.to_path_buf();
    pattern.extend(below.components().map(|_| "*"));
    let pattern = pattern.with_extension(file.extension().unwrap_or_default());
    let names = format!("so name its files, alone or by a pattern such as {}", pattern.display());
    let columns: Vec<_> = partition_columns(below).collect();
    match columns.first() {
        Some((column, part)) => format!("{names}; {}", in_folder_names(column, part)),
        None => names,
    }
}

/// Says which folders to name in place of one that has a folder for each split, and no class of another name.
fn of_splits(folder: &Path) -> Option<String> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut folders: Vec<PathBuf> =
        entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect();
    folders.retain(|path| !is_hidden(path));
    folders.sort();
    let split_of = |path: &PathBuf| {
        let name = path.file_name()?.to_str()?;
        split_names().find(|split| names_split(name, split))
    };
    let has_no_file = |path: &PathBuf| first_data_file(path, DEPTH_MAX).is_none_or(is_text);
    if folders.len() < 2 || !folders.iter().all(has_no_file) {
        return None;
    }
    let named =
        folders.iter().map(|path| Some(format!("{} by data.{}", path.display(), split_of(path)?)));
    let named = named.collect::<Option<Vec<_>>>()?;
    Some(format!("which has one for each split: name {}", named.join(", ")))
}

fn is_text(path: PathBuf) -> bool {
    path.extension().is_some_and(|extension| extension == PLAIN_TEXT)
}

/// The first data file by its path, in the folder itself before those below.
fn first_data_file(folder: &Path, depth: usize) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    entries.retain(|path| !is_hidden(path));
    entries.sort();
    let is_data = |file: &&PathBuf| {
        file.is_file() && file.extension().is_some() && formats::of_path(file).is_ok()
    };
    let found = entries.iter().find(is_data).cloned();
    found.or_else(|| {
        let mut below = entries.iter().filter(|entry| depth > 0 && entry.is_dir());
        below.find_map(|below| first_data_file(below, depth - 1))
    })
}

/// The columns that the names of folders have in a partitioned data set, with these names: `label=0`.
fn partition_columns(path: &Path) -> impl Iterator<Item = (&str, &str)> {
    let folders = path.parent().into_iter().flat_map(Path::components);
    let names = folders.filter_map(|part| part.as_os_str().to_str());
    names.filter_map(|name| name.split_once('=').map(|(column, _)| (column, name)))
}

/// Says how to get a column of a partitioned data set.
fn in_folder_names(column: &str, part: &str) -> String {
    format!(
        "{column:?} is only in names of folders such as {part}, which are not read: write it into the files, as \
         pandas.read_parquet(FOLDER).to_parquet(FILE) does"
    )
}

impl SourceFile {
    pub(super) fn open(path: DataPath, given: &Files) -> Result<Self> {
        let opened = Self::try_open(&path.local, given);
        let (data, sharing) = opened.map_err(|error| path.renamed(error))?;
        let own_columns = guard(&path.name, "read the header", || data.columns());
        let own_columns = own_columns.map_err(|error| path.renamed(error))?;
        let columns = given.columns.apply(own_columns.clone());
        let (parts, rows) = (data.parts(), data.rows());
        let local = path.local.as_path();
        let folder = if local.is_dir() { Some(local) } else { local.parent() };
        let folder = folder.unwrap_or(local).to_path_buf();
        Ok(Self { path, data, own_columns, columns, sharing, parts, rows, folder })
    }

    fn try_open(path: &Path, given: &Files) -> Result<(Box<dyn DataFile>, Sharing)> {
        let metadata = std::fs::metadata(path).map_err(Error::io(path, "open"))?;
        let file = path.to_path_buf();
        if metadata.is_dir() {
            if let Some(remedy) = of_splits(path) {
                return Err(Error::IsFolder { file, remedy });
            }
            let files = formats::class_folder::open(path, &given.format)?;
            let files = files.ok_or_else(|| Error::IsFolder { file, remedy: remedy(path) })?;
            return Ok((files, Sharing::None));
        }
        if !metadata.is_file() {
            return Err(Error::NotAFile { file });
        }
        let format = formats::of_path(path)?;
        if metadata.len() == 0 {
            return Err(Error::EmptyFile { file });
        }
        // Plain text may be that of a page.
        if let Some(problem) = stand_in(path).filter(|_| format.name() != PLAIN_TEXT) {
            return Err(Error::bad_file(path, "data", problem));
        }
        guard(path, "read the header", || Ok(((format.open)(path, &given.format)?, format.sharing)))
    }

    /// Returns true if the file has the column, by the name that users know.
    pub(super) fn has(&self, column: &str) -> bool {
        self.columns.iter().any(|name| name == column)
    }

    /// The file's own name of a column; None where it has none.
    pub(super) fn own_name<'name>(
        &self,
        changes: &'name Columns,
        column: &'name str,
    ) -> Option<&'name str> {
        let renamed = changes.in_file(column);
        let is_own = |name: &&str| self.own_columns.iter().any(|own| own == name);
        self.has(column).then(|| [renamed, column].into_iter().find(is_own)).flatten()
    }

    /// The columns to read for those of `own` that the file has: one at least, which counts the rows.
    pub(super) fn to_read<'name>(&'name self, own: &[Option<&'name str>]) -> Vec<&'name str> {
        let found: Vec<&str> = own.iter().flatten().copied().collect();
        match found.is_empty() {
            true => self.own_columns.iter().map(String::as_str).take(1).collect(),
            false => found,
        }
    }

    /// Fails unless the file has a column exactly once, or lacks what only `other` files have, of
    /// which the first one is `first`, as its format allows.
    pub(super) fn require_column(
        &self,
        column: &str,
        other: Option<&Self>,
        first: &Self,
    ) -> Result<()> {
        let (file, name) = (self.path.name.clone(), column.to_owned());
        let may_lack = match self.sharing {
            Sharing::None => false,
            Sharing::First => first.has(column),
            Sharing::Any => other.is_some(),
        };
        match (self.columns.iter().filter(|own| *own == column).count(), other) {
            (1, _) => Ok(()),
            (0, _) if may_lack => Ok(()),
            (0, Some(other)) => {
                let other = other.path.name.clone();
                Err(Error::ColumnsOfOthers { file, columns: vec![name], other })
            }
            (0, None) => Err(Error::MissingColumns {
                file,
                columns: vec![name],
                available: self.available() + &self.elsewhere(column) + &self.alike(column),
            }),
            (count, _) => Err(Error::DuplicateColumn { file, column: name, count }),
        }
    }

    /// Says where a column is that no file has, behind those that it has.
    fn elsewhere(&self, column: &str) -> String {
        let part = partition_columns(&self.path.name).find(|(name, _)| *name == column);
        part.map_or_else(String::new, |(column, part)| {
            format!("; {}", in_folder_names(column, part))
        })
    }

    /// Says which column has nearly the name of one that no file has, and that lines have no columns.
    fn alike(&self, column: &str) -> String {
        let is_alike = |own: &&String| own.trim().to_lowercase() == column.to_lowercase();
        match self.columns.iter().find(is_alike) {
            Some(own) => format!("; names count with their case and spaces, as {own:?} has them"),
            None if formats::of_path(&self.path.local).is_ok_and(|it| it.name() == PLAIN_TEXT) => {
                "; a .txt file has one text a line, and rows with columns are in CSV, JSON or Parquet".to_owned()
            }
            None => String::new(),
        }
    }

    /// The columns, for an error.
    fn available(&self) -> String {
        match self.columns.as_slice() {
            [one] if one.contains(OTHER_DELIMITERS) => {
                format!("{one:?} (is data.delimiter right?)")
            }
            columns if columns.len() > NAMED_MAX => {
                let others = columns.len() - NAMED_MAX;
                format!("{} and {others} others", columns[..NAMED_MAX].join(", "))
            }
            columns => columns.join(", "),
        }
    }
}
