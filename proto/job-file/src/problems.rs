//! What is wrong with a job file, and what is only odd.

use std::collections::BTreeMap;
use std::fmt;

use crate::node::{Node, Position, Value};

/// Something in a job file that must be changed before the job can run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Path of the field: "train.learning_rate". Empty for the file as a whole.
    pub field: String,
    /// What is wrong with it, to be read after its path: "must be at least 0, not -1".
    pub description: String,
    /// Line of the YAML, from 1; none for a field that is not in it.
    pub line: Option<u32>,
    /// Column of the YAML, from 1.
    pub column: Option<u32>,
}

/// Something in a job file that is read in a way the user should know of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Machine-readable: `ALIAS_USED`, `FIELD_UNUSED` or `BEST_NOT_LOADED`.
    pub code: &'static str,
    /// Path of the field.
    pub field: String,
    /// What the user should know, to be read after the path.
    pub description: String,
    /// Line of the YAML, from 1.
    pub line: Option<u32>,
}

/// A key or value has an old or alternative name.
pub(crate) const ALIAS_USED: &str = "ALIAS_USED";
/// A field has no effect beside the others.
pub(crate) const FIELD_UNUSED: &str = "FIELD_UNUSED";
/// The best model is looked for and not kept.
pub(crate) const BEST_NOT_LOADED: &str = "BEST_NOT_LOADED";

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

/// Collects problems and finds the lines they are on.
#[derive(Debug, Default)]
pub(crate) struct Problems {
    positions: BTreeMap<String, Position>,
    violations: Vec<Violation>,
    warnings: Vec<Warning>,
}

impl Problems {
    /// `root` is the document, after overrides.
    pub(crate) fn of(root: &Node) -> Self {
        let mut problems = Self::default();
        problems.index("", root);
        problems
    }

    /// Reports what is wrong with a field. A field is wrong for one reason at
    /// a time: what follows from the first is noise.
    pub(crate) fn violation(&mut self, field: &str, description: impl Into<String>) {
        if self.violations.iter().all(|known| known.field != field) {
            let at = self.position(field);
            self.violations.push(Violation::new(field, description, at));
        }
    }

    /// Whether something is wrong with a field or with part of it.
    pub(crate) fn is_wrong(&self, field: &str) -> bool {
        self.violations.iter().any(|known| known.field.starts_with(field))
    }

    /// Reports what is odd about a field.
    pub(crate) fn warning(
        &mut self,
        code: &'static str,
        field: &str,
        description: impl Into<String>,
    ) {
        self.warnings.push(Warning {
            code,
            field: field.to_owned(),
            description: description.into(),
            line: self.position(field).map(|at| at.line),
        });
    }

    /// A field is known by another path from now on.
    pub(crate) fn renamed(&mut self, old: &str, new: &str) {
        let at = self.positions.get(old).copied();
        self.place(new, at);
    }

    /// The warnings, or the violations if there are any, both by line.
    pub(crate) fn finish(mut self) -> Result<Vec<Warning>, Vec<Violation>> {
        self.violations.sort_by_key(|violation| violation.line);
        self.warnings.sort_by_key(|warning| warning.line);
        if self.violations.is_empty() { Ok(self.warnings) } else { Err(self.violations) }
    }

    /// Where a field stands, or else the innermost section around it.
    fn position(&self, field: &str) -> Option<Position> {
        let mut path = field;
        loop {
            if let Some(at) = self.positions.get(path) {
                return Some(*at);
            }
            path = &path[..path.rfind(['.', '['])?];
        }
    }

    fn index(&mut self, path: &str, node: &Node) {
        match &node.value {
            Value::Map(entries) => {
                for entry in entries {
                    let path = join(path, &entry.key);
                    self.place(&path, entry.key_at);
                    self.index(&path, &entry.node);
                }
            }
            Value::List(nodes) => {
                for (index, node) in nodes.iter().enumerate() {
                    let path = format!("{path}[{index}]");
                    self.place(&path, node.at);
                    self.index(&path, node);
                }
            }
            _ => {}
        }
    }

    fn place(&mut self, path: &str, at: Option<Position>) {
        self.positions.extend(at.map(|at| (path.to_owned(), at)));
    }
}

/// The path of a key in a section.
pub(crate) fn join(section: &str, key: &str) -> String {
    match section {
        "" => key.to_owned(),
        section => format!("{section}.{key}"),
    }
}
