//! One row of a file, as tasks read it.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::error::{Error, ImageProblem, Location, Result, TokenizeProblem};
use crate::image::BYTES_MAX;
use crate::source::{Part, Place, Records, Source, Value};

/// One row of a file.
pub(crate) struct Row<'records> {
    pub(crate) source: &'records Source,
    /// The number of the set that the file belongs to.
    pub(crate) set: usize,
    /// The number of the first file of `source` among those of all sets.
    pub(crate) first_file: usize,
    pub(crate) part: Part,
    pub(crate) records: &'records Records,
    pub(crate) record: usize,
}

impl<'records> Row<'records> {
    /// The number of the file among those of all sets.
    pub(crate) fn file(&self) -> usize {
        self.first_file + self.part.file
    }

    /// The cell of a column that the task asked for.
    pub(crate) fn cell(&self, column: &str) -> &'records Value {
        self.records.cell(column, self.record)
    }

    /// The cell of a column that only some files have.
    pub(crate) fn find(&self, column: &str) -> Option<&'records Value> {
        self.records.has(column).then(|| self.cell(column))
    }

    /// The cell as text; a missing or empty one is an error.
    pub(crate) fn text(&self, column: &str) -> Result<&'records str> {
        match self.text_or_empty(column)? {
            "" => Err(Error::EmptyText { at: self.location(), column: column.to_owned() }),
            text => Ok(text),
        }
    }

    /// The cell as text; a missing one is empty.
    pub(crate) fn text_or_empty(&self, column: &str) -> Result<&'records str> {
        match self.cell(column) {
            Value::Text(text) => Ok(text),
            Value::Null => Ok(""),
            other => Err(Error::NotText {
                at: self.location(),
                column: column.to_owned(),
                found: other.kind(),
            }),
        }
    }

    /// The cell as a list of texts.
    pub(crate) fn texts(&self, column: &str) -> Result<Vec<&'records str>> {
        let fail = |found: String| Error::NotTexts {
            at: self.location(),
            column: column.to_owned(),
            found,
        };
        let Value::List(items) = self.cell(column) else {
            return Err(fail(self.cell(column).kind().to_owned()));
        };
        let texts = items.iter().map(|item| match item {
            Value::Text(text) => Ok(text.as_str()),
            other => Err(fail(format!("{} in a list", other.kind()))),
        });
        texts.collect()
    }

    /// The encoded image of the cell: a path, bytes, or a struct of both as `datasets` has it.
    pub(crate) fn image(&self, column: &str) -> Result<Cow<'records, [u8]>> {
        let image = match image_of(self.cell(column)) {
            Some(ImageCell::Bytes(bytes)) => Ok(Cow::Borrowed(bytes)),
            Some(ImageCell::Path(path)) => {
                read_image(&self.source.folder(self.part).join(path)).map(Cow::Owned)
            }
            None => Err(ImageProblem::Kind { found: self.cell(column).kind() }),
        };
        image.map_err(|problem| self.image_error(column, problem))
    }

    /// An image's problem as an error at this row.
    pub(crate) fn image_error(&self, column: &str, problem: ImageProblem) -> Error {
        let path = match image_of(self.cell(column)) {
            Some(ImageCell::Path(path)) => Some(path.to_owned()),
            _ => None,
        };
        let (at, column) = (self.location(), column.to_owned());
        Error::Image { at, column, path, problem: Box::new(problem) }
    }

    /// A tokenizer's problem as an error at this row.
    pub(crate) fn tokenize_error(&self, problem: TokenizeProblem) -> Error {
        Error::Tokenize { at: self.location(), problem: Box::new(problem) }
    }

    /// The place of the row, by which its location can be found later.
    pub(crate) fn place(&self) -> Place {
        Place::new(self.part, self.records, self.record)
    }

    /// The location of the row.
    pub(crate) fn location(&self) -> Location {
        self.source.location(self.part, self.records, self.record)
    }
}

/// Where the image of a cell is.
pub(crate) enum ImageCell<'cell> {
    Bytes(&'cell [u8]),
    Path(&'cell str),
}

/// The place of a cell's image; `None` for a cell that has none.
pub(crate) fn image_of(cell: &Value) -> Option<ImageCell<'_>> {
    match cell {
        Value::Bytes(bytes) => Some(ImageCell::Bytes(bytes)),
        Value::Text(path) if !path.is_empty() => Some(ImageCell::Path(path)),
        Value::Struct(fields) => {
            let field = |name| fields.iter().find(|(field, _)| field == name);
            let of = |name| field(name).and_then(|(_, value)| image_of(value));
            of("bytes").or_else(|| of("path"))
        }
        _ => None,
    }
}

/// The beginnings of URLs, as parts of a path.
const URLS: [&str; 2] = ["http:", "https:"];

/// Reads the file of an image, of which no more than the allowed bytes.
fn read_image(path: &Path) -> Result<Vec<u8>, ImageProblem> {
    let unreadable =
        |error: std::io::Error| ImageProblem::Unreadable { message: error.to_string() };
    if path.components().any(|part| URLS.iter().any(|url| part.as_os_str() == *url)) {
        let message =
            "it is a URL, which is not fetched: download the images, and name their files";
        return Err(ImageProblem::Unreadable { message: message.to_owned() });
    }
    let mut bytes = Vec::new();
    // To open a pipe would wait for its writer.
    if !path.metadata().map_err(unreadable)?.is_file() {
        return Err(ImageProblem::Unreadable { message: "it is not a file".to_owned() });
    }
    let file = File::open(path).map_err(unreadable)?;
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}
