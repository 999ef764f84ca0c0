//! Collects the violations and warnings of a job file.

use std::collections::BTreeMap;

use crate::node::{Node, Value};
use crate::violation::{Position, Violation, Warning};

/// A key or value has an old or alternative name.
pub(crate) const ALIAS_USED: &str = "ALIAS_USED";
/// A field has no effect beside the others.
pub(crate) const FIELD_UNUSED: &str = "FIELD_UNUSED";
/// The best model is determined and not kept.
pub(crate) const BEST_NOT_LOADED: &str = "BEST_NOT_LOADED";
/// The id of a model is also the name of a folder.
pub(crate) const HUB_ID_IS_FOLDER: &str = "HUB_ID_IS_FOLDER";

/// Collects problems and finds the lines they are on.
#[derive(Debug)]
pub(crate) struct Problems {
    field_paths: fn() -> Vec<String>,
    positions: BTreeMap<String, Position>,
    violations: Vec<Violation>,
    warnings: Vec<Warning>,
}

impl Problems {
    /// Starts with the positions in `root`, the document after overrides. `field_paths` returns the
    /// paths of all fields that there are.
    pub(crate) fn of(root: &Node, field_paths: fn() -> Vec<String>) -> Self {
        let (positions, violations, warnings) = Default::default();
        let mut problems = Self { field_paths, positions, violations, warnings };
        problems.index("", root);
        problems
    }

    /// The paths of all fields that there are.
    pub(crate) fn known_fields(&self) -> Vec<String> {
        (self.field_paths)()
    }

    /// Reports a violation. Only the first one of a field counts: the others usually follow from
    /// it.
    pub(crate) fn violation(&mut self, field: &str, description: impl Into<String>) {
        if self.violations.iter().all(|known| known.field != field) {
            let at = self.position(field);
            self.violations.push(Violation::new(field, description, at));
        }
    }

    /// Returns true if a field or part of it has a violation.
    pub(crate) fn is_wrong(&self, field: &str) -> bool {
        self.violations.iter().any(|known| known.field.starts_with(field))
    }

    /// Reports a warning about a field.
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

    /// The position of a field, or else of the innermost section around it.
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
