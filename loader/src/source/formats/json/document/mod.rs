//! One JSON document, a list of rows or an object with such a list under `data`: SQuAD's files (articles of paragraphs
//! of questions), which are flattened to a row a question as `datasets` does, or plain rows. It is
//! read from its beginning to its end, and no more of it is in memory than a row or a paragraph.

mod meter;
mod node;
mod shape;
mod squad;
mod walk;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value as Json};

use super::column_names::ColumnNames;
use super::lines::value;
use crate::error::{Error, Result};
use crate::source::formats::DataFile;
use crate::source::{Records, Sink, Value};
use squad::QUESTION_COLUMNS;
use walk::{EntryKind, Walk};

/// A row by the names of its columns.
type Fields = Map<String, Json>;

struct NestedJson {
    path: PathBuf,
    columns: Vec<String>,
    rows: u64,
    late_titles: LateTitles,
}

/// Titles that come after the questions of their articles, by the number of the article.
type LateTitles = BTreeMap<u64, Json>;

/// Opens a file of this kind; None if it is of another. Reads all of it once, since only its end
/// shows that it is one document.
pub(super) fn open(path: &Path) -> Result<Option<Box<dyn DataFile>>> {
    let mut names = ColumnNames::default();
    let mut add_keys = |fields: Fields| {
        fields.keys().for_each(|key| names.add(key));
        Ok(())
    };
    let mut walk = Walk::new(path, &mut add_keys);
    if !walk.is_one_document()? {
        return Ok(None);
    }
    if let Some(error) = walk.error.take() {
        return Err(error);
    }
    let (rows, kind, late_titles) = (walk.rows, walk.kind, std::mem::take(&mut walk.late_titles));
    let columns = match kind {
        _ if rows == 0 => return Err(Error::NoRows { files: path.display().to_string() }),
        Some(EntryKind::Articles) => QUESTION_COLUMNS.map(str::to_owned).to_vec(),
        _ => names.check(path)?,
    };
    let path = path.to_path_buf();
    Ok(Some(Box::new(NestedJson { path, columns, rows, late_titles })))
}

impl DataFile for NestedJson {
    fn columns(&self) -> Result<Vec<String>> {
        Ok(self.columns.clone())
    }

    fn rows(&self) -> Option<u64> {
        Some(self.rows)
    }

    fn read(&self, _part: usize, columns: &[&str], sink: Sink<'_>) -> Result<()> {
        let mut records = Records::new(0, columns);
        let mut push = |mut row: Fields| {
            let cell = |column: &&str| row.remove(*column).map_or(Value::Null, value);
            records.push(0, columns.iter().map(cell), sink)
        };
        Walk::knowing(&self.path, &mut push, self.late_titles.clone()).read()?;
        sink(records)
    }
}
