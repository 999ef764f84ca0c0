//! One row of a file, as tasks read it.

use crate::{Error, Location, Part, Records, Result, Source, TokenizeProblem, Value};

/// One row of a file.
pub(crate) struct Row<'records> {
    pub(crate) source: &'records Source,
    pub(crate) part: Part,
    pub(crate) records: &'records Records,
    pub(crate) record: usize,
}

impl<'records> Row<'records> {
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

    /// A tokenizer's problem as an error at this row.
    pub(crate) fn tokenize_error(&self, problem: TokenizeProblem) -> Error {
        Error::Tokenize { at: self.location(), problem: Box::new(problem) }
    }

    /// The location of the row.
    pub(crate) fn location(&self) -> Location {
        self.source.location(self.part, self.records, self.record)
    }
}
