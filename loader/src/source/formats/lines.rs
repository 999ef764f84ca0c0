//! Text by its lines, for the formats in which a line is a row.

use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use super::encoding::{Encoding, looks_like};
use super::{ROW_BYTES_MAX, open_decoded};
use crate::error::{Error, Location, Result};

/// The bytes before a text in UTF-8 that say so.
pub(super) const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";

pub(super) struct Line {
    /// Its row, and its number from 1.
    pub at: Location,
    /// The line with its break, if it has one.
    pub text: String,
}

impl Line {
    pub(super) fn number(&self) -> u64 {
        self.at.line.unwrap_or_default()
    }
}

/// The treatment of lines with nothing but white space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blank {
    Kept,
    /// They do not count as rows.
    Skipped,
}

pub(super) fn lines(
    path: &Path,
    encoding: Option<Encoding>,
    blank: Blank,
) -> Result<impl Iterator<Item = Result<Line>>> {
    some_lines(path, encoding, blank, |_| true)
}

/// The lines of wanted rows.
pub(super) fn some_lines(
    path: &Path,
    encoding: Option<Encoding>,
    blank: Blank,
    is_wanted: impl Fn(u64) -> bool,
) -> Result<impl Iterator<Item = Result<Line>>> {
    let mut reader = BufReader::with_capacity(1 << 16, open_decoded(path, encoding)?);
    let path = path.to_path_buf();
    let mut is_first = true;
    let lines = std::iter::from_fn(move || {
        let line = next_line(&mut reader).transpose();
        // A byte order mark may stand in a line of its own.
        let is_first = std::mem::take(&mut is_first);
        line.map(|line| line.map(|line| if is_first { without_mark(line) } else { line }))
    });
    let lines = lines.zip(1u64..);
    let counts = move |line: &[u8]| blank == Blank::Kept || !line.trim_ascii().is_empty();
    let lines = lines.filter(move |(line, _)| line.as_ref().map_or(true, |line| counts(line)));
    let lines = lines.zip(0u64..);
    let lines = lines.filter(move |((line, _), row)| line.is_err() || is_wanted(*row));
    Ok(lines.map(move |((bytes, number), row)| {
        let bytes = bytes.map_err(Error::io(&path, "read"))?;
        let at = Location { file: path.clone(), row, line: Some(number) };
        checked(bytes, at)
    }))
}

/// As many zeros are no text, which UTF-8 would have them be.
const ZEROS_MIN: usize = 16;

/// The next line, cut after the longest allowed length plus one byte; None at the end.
fn next_line(reader: &mut impl BufRead) -> std::io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    match reader.take(ROW_BYTES_MAX + 1).read_until(b'\n', &mut line)? {
        0 => Ok(None),
        _ => Ok(Some(line)),
    }
}

fn without_mark(mut line: Vec<u8>) -> Vec<u8> {
    // A line that is cut stays too long.
    if line.starts_with(BYTE_ORDER_MARK) && line.len() as u64 <= ROW_BYTES_MAX {
        line.drain(..BYTE_ORDER_MARK.len());
    }
    line
}

fn checked(bytes: Vec<u8>, at: Location) -> Result<Line> {
    if bytes.len() as u64 > ROW_BYTES_MAX {
        return Err(Error::RowTooLong { at, max: ROW_BYTES_MAX });
    }
    if bytes.len() >= ZEROS_MIN && bytes.iter().all(|&byte| byte == 0) {
        let message = "nothing but zeros, as at the end of a file that was cut off by a crash; write or copy it again";
        return Err(Error::BadRow { at, message: message.to_owned() });
    }
    match String::from_utf8(bytes) {
        Ok(text) => Ok(Line { at, text }),
        Err(error) => {
            let looks_like = looks_like(error.as_bytes());
            Err(Error::InvalidUtf8 { at, column: "(whole line)".to_owned(), looks_like })
        }
    }
}
