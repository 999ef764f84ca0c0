//! Plain text, a row a line, in the one column `text`, as the text loader of `datasets` reads it.

use std::path::{Path, PathBuf};

use super::encoding::Encoding;
use super::lines::{Blank, lines};
use super::{DataFile, FormatOptions, ROW_BYTES_MAX};
use crate::error::{Error, Location, Result};
use crate::source::{Records, Sink, Value};

const COLUMN: &str = "text";

struct TextFile {
    path: PathBuf,
    keep_linebreaks: bool,
    encoding: Option<Encoding>,
}

pub(super) fn open(path: &Path, options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    let FormatOptions { keep_linebreaks, encoding, .. } = options.clone();
    Ok(Box::new(TextFile { path: path.to_path_buf(), keep_linebreaks, encoding }))
}

/// A whole file as one text, with line breaks as Python reads them.
pub(super) fn whole(path: &Path, encoding: Option<Encoding>) -> Result<String> {
    let mut text = String::new();
    for line in lines(path, encoding, Blank::Kept)? {
        text.push_str(&line?.text.replace("\r\n", "\n"));
        if text.len() as u64 > ROW_BYTES_MAX {
            let at = Location { file: path.to_path_buf(), row: 0, line: None };
            return Err(Error::RowTooLong { at, max: ROW_BYTES_MAX });
        }
    }
    Ok(text)
}

impl DataFile for TextFile {
    fn columns(&self) -> Result<Vec<String>> {
        Ok(vec![COLUMN.to_owned()])
    }

    /// Rows are marked with their lines.
    fn line(&self, mark: u64) -> Option<u64> {
        Some(mark)
    }

    fn read(&self, _part: usize, columns: &[&str], sink: Sink<'_>) -> Result<()> {
        let mut records = Records::new(0, columns);
        let blank = if self.keep_linebreaks { Blank::Kept } else { Blank::Skipped };
        for line in lines(&self.path, self.encoding, blank)? {
            let line = line?;
            let text = match self.keep_linebreaks {
                // As Python reads text, whatever line breaks the file has.
                true => line.text.replace("\r\n", "\n"),
                false => line.text.trim_end_matches(['\r', '\n']).to_owned(),
            };
            let cells = columns.iter().map(|_| Value::Text(text.clone()));
            records.push(line.number(), cells, sink)?;
        }
        sink(records)
    }
}
