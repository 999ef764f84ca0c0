//! Violations and warnings, with their positions.

use std::fmt;

/// A position in the YAML, counted from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Position {
    pub(crate) line: u32,
    pub(crate) column: u32,
}

/// A fault of a job file, which must be corrected before the job can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field: "train.learning_rate". Empty for the file as a whole.
    pub field: String,
    /// The fault, to be read after the path: "must be at least 0, not -1".
    pub description: String,
    /// Line of the YAML, from 1; none for a field that is not in it.
    pub line: Option<u32>,
    /// Column of the YAML, from 1.
    pub column: Option<u32>,
}

/// A field of a job file that is read in a way the user should know about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Machine-readable: `ALIAS_USED`, `FIELD_UNUSED` or `BEST_NOT_LOADED`.
    pub code: &'static str,
    /// Path of the field.
    pub field: String,
    /// The warning, to be read after the path.
    pub description: String,
    /// Line of the YAML, from 1.
    pub line: Option<u32>,
}

impl Violation {
    pub(crate) fn new(
        field: impl Into<String>,
        description: impl Into<String>,
        at: Option<Position>,
    ) -> Self {
        Self {
            field: field.into(),
            description: description.into(),
            line: at.map(|at| at.line),
            column: at.map(|at| at.column),
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write_place(formatter, self.line, &self.field)?;
        formatter.write_str(&self.description)
    }
}

impl std::error::Error for Violation {}

impl fmt::Display for Warning {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        write_place(formatter, self.line, &self.field)?;
        formatter.write_str(&self.description)
    }
}

fn write_place(formatter: &mut fmt::Formatter, line: Option<u32>, field: &str) -> fmt::Result {
    if let Some(line) = line {
        write!(formatter, "line {line}: ")?;
    }
    match field {
        "" => formatter.write_str("job file: "),
        field => write!(formatter, "{field}: "),
    }
}
