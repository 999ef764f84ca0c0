//! Raw labels to class ids (or to numbers, for regression).
//!
//! With `label_map`, ids are given in order of first appearance of its names. Without, a column of
//! integers is taken as ids, and other values get ids in sorted order. A column whose every value
//! reads as an integer is one of integers, in every format, CSV having no types. A column may also
//! hold a list a row: labels of its words, or all classes that apply to it.

mod encoder;
mod interner;
mod raw;
#[cfg(test)]
mod tests;

use serde::Serialize;

use encoder::Lookup;
pub use encoder::{LabelEncoder, LabelTarget};
use interner::Interner;
use raw::RawLabel;

use crate::tasks::Row;
use crate::{LabelProblem, Labels, Location, Result, Value};

/// What stands where a token has no target: losses and metrics pass it over.
pub const IGNORED_LABEL: i32 = -100;

/// Which column holds the labels and how they become targets.
#[derive(Clone, Debug, Serialize)]
pub struct LabelSpec {
    pub column: String,
    pub kind: LabelKind,
}

/// How raw labels become targets.
#[derive(Clone, Debug, Serialize)]
pub enum LabelKind {
    /// Class ids by a rule that the data define. Ids at and beyond `num_labels`, if it is given,
    /// are refused.
    Infer { num_labels: Option<u32> },
    /// Class ids by a fixed rule: a `label_map`, or what the training split arrived at.
    Encoder(LabelEncoder),
    /// A number a row, or a list of so many.
    Regression { num_labels: u32 },
    /// A list of classes a row, all of which apply; ids by `encoder`, or as with `Infer`.
    MultiLabel { encoder: Option<LabelEncoder>, num_labels: Option<u32> },
}

impl LabelKind {
    fn encoder(&self) -> Option<&LabelEncoder> {
        match self {
            Self::Encoder(encoder) => Some(encoder),
            Self::MultiLabel { encoder, .. } => encoder.as_ref(),
            Self::Infer { .. } | Self::Regression { .. } => None,
        }
    }

    fn num_labels(&self) -> Option<u32> {
        match self {
            Self::Infer { num_labels } | Self::MultiLabel { num_labels, .. } => *num_labels,
            Self::Encoder(_) | Self::Regression { .. } => None,
        }
    }

    /// The same kind with the ids that the training split arrived at, for the other splits.
    pub fn with_encoder(&self, encoder: LabelEncoder) -> Self {
        match self {
            Self::MultiLabel { num_labels, .. } => {
                Self::MultiLabel { encoder: Some(encoder), num_labels: *num_labels }
            }
            Self::Infer { .. } | Self::Encoder(_) => Self::Encoder(encoder),
            Self::Regression { num_labels } => Self::Regression { num_labels: *num_labels },
        }
    }
}

/// A label as far as its row alone tells.
#[derive(Clone, Debug)]
pub(crate) enum RowLabel {
    Id(i32),
    Raw(RawLabel),
    Numbers(Vec<f32>),
    /// For each token the number of its word's label, or None.
    Tokens(Vec<Option<TokenLabel>>),
    /// The numbers of the classes that apply.
    Many(Vec<u32>),
    /// The first and the last token of an answer.
    Span(i32, i32),
}

/// The label of a token's word, by the number that [`LabelReader::read_list`] gave it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TokenLabel {
    pub(crate) number: u32,
    /// Not the first token of its word: a label `B-X` means `I-X` here.
    pub(crate) continues: bool,
}

/// Reads labels row by row, then settles what only the whole column can tell.
pub(crate) struct LabelReader<'spec> {
    spec: &'spec LabelSpec,
    lookup: Option<Lookup<'spec>>,
    class_names: Option<Vec<String>>,
    interner: Interner,
}

impl<'spec> LabelReader<'spec> {
    /// `class_names` are those of a column of ids, where its file has them.
    pub(crate) fn new(spec: &'spec LabelSpec, class_names: Option<Vec<String>>) -> Self {
        let lookup = spec.kind.encoder().map(LabelEncoder::lookup);
        Self { spec, lookup, class_names, interner: Interner::default() }
    }

    /// Reads one row's label.
    pub(crate) fn read(&self, row: &Row<'_>) -> Result<RowLabel> {
        if let LabelKind::MultiLabel { .. } = self.spec.kind {
            return self.read_list(row).map(RowLabel::Many);
        }
        let label = self.row_label(row.cell(&self.spec.column));
        label.map_err(|problem| self.error(row.location(), problem))
    }

    /// Reads one row's list of labels: a number for each.
    pub(crate) fn read_list(&self, row: &Row<'_>) -> Result<Vec<u32>> {
        let numbers = self.numbers(row.cell(&self.spec.column));
        numbers.map_err(|problem| self.error(row.location(), problem))
    }

    fn numbers(&self, value: &Value) -> Result<Vec<u32>, LabelProblem> {
        let items = match value {
            Value::List(items) => items,
            Value::Null => return Err(LabelProblem::Missing),
            other => return Err(LabelProblem::NotAList { found: other.kind() }),
        };
        let number = |item| {
            let raw = RawLabel::read(item)?;
            self.lookup.as_ref().map(|lookup| lookup.id(&raw)).transpose()?;
            Ok(self.interner.number(raw))
        };
        items.iter().map(number).collect()
    }

    fn row_label(&self, value: &Value) -> Result<RowLabel, LabelProblem> {
        match (&self.spec.kind, &self.lookup) {
            (LabelKind::Regression { num_labels }, _) => {
                raw::numbers(value, *num_labels).map(RowLabel::Numbers)
            }
            (_, Some(lookup)) => lookup.id(&RawLabel::read(value)?).map(RowLabel::Id),
            (_, None) => RawLabel::read(value).map(RowLabel::Raw),
        }
    }

    /// The targets of all rows, and the rule that made them. `at` tells where a row came from.
    pub(crate) fn finish(
        &self,
        rows: &[RowLabel],
        at: impl Fn(usize) -> Location,
    ) -> Result<(Labels, Option<LabelEncoder>)> {
        if let LabelKind::Regression { num_labels } = self.spec.kind {
            let numbers = rows.iter().filter_map(|row| match row {
                RowLabel::Numbers(numbers) => Some(numbers),
                _ => None,
            });
            let values = numbers.flatten().copied().collect();
            return Ok((Labels::Numbers { width: num_labels as usize, values }, None));
        }
        let numbered = self.interner.labels();
        let encoder = match self.spec.kind.encoder() {
            Some(encoder) => encoder.clone(),
            None => {
                let raw = rows.iter().filter_map(RowLabel::raw).chain(&numbered);
                LabelEncoder::infer(raw, self.class_names.as_deref(), self.spec.kind.num_labels())?
            }
        };
        let targets = Targets::new(&encoder, &numbered);
        let labels = targets.of_rows(rows, &self.spec.kind);
        let labels = labels.map_err(|(row, problem)| self.error(at(row), problem))?;
        Ok((labels, Some(encoder)))
    }

    /// `problem`, with its place.
    fn error(&self, at: Location, problem: LabelProblem) -> crate::Error {
        crate::Error::Label { at, column: self.spec.column.clone(), problem: Box::new(problem) }
    }
}

impl RowLabel {
    fn raw(&self) -> Option<&RawLabel> {
        match self {
            Self::Raw(raw) => Some(raw),
            _ => None,
        }
    }
}

/// Row labels to targets by a rule that is settled. Errors come with the row.
struct Targets<'encoder> {
    lookup: Lookup<'encoder>,
    classes: usize,
    /// The id of each numbered label, and of the tokens that go on with its word.
    ids: Vec<Result<(i32, i32), LabelProblem>>,
}

impl<'encoder> Targets<'encoder> {
    fn new(encoder: &'encoder LabelEncoder, numbered: &[RawLabel]) -> Self {
        let lookup = encoder.lookup();
        let ids = numbered.iter().map(|raw| {
            let id = lookup.id(raw)?;
            Ok((id, encoder.continued(id)))
        });
        Self { ids: ids.collect(), classes: encoder.num_labels() as usize, lookup }
    }

    fn of_rows(
        &self,
        rows: &[RowLabel],
        kind: &LabelKind,
    ) -> Result<Labels, (usize, LabelProblem)> {
        let rows = rows.iter().enumerate();
        let placed = |row| move |problem| (row, problem);
        if let LabelKind::MultiLabel { .. } = kind {
            let hot = rows.map(|(row, label)| self.many(label).map_err(placed(row)));
            let values = hot.collect::<Result<Vec<_>, _>>()?.concat();
            return Ok(Labels::MultiLabel { classes: self.classes, values });
        }
        let mut ids = Vec::new();
        let mut of_tokens = false;
        for (row, label) in rows {
            of_tokens |= matches!(label, RowLabel::Tokens(_));
            self.append(label, &mut ids).map_err(placed(row))?;
        }
        Ok(if of_tokens { Labels::Token(ids) } else { Labels::Class(ids) })
    }

    fn append(&self, label: &RowLabel, ids: &mut Vec<i32>) -> Result<(), LabelProblem> {
        match label {
            RowLabel::Id(id) => ids.push(*id),
            RowLabel::Raw(raw) => ids.push(self.lookup.id(raw)?),
            RowLabel::Tokens(tokens) => {
                for token in tokens {
                    ids.push(token.map_or(Ok(IGNORED_LABEL), |label| self.token(label))?);
                }
            }
            RowLabel::Numbers(_) | RowLabel::Many(_) | RowLabel::Span(..) => {
                return Err(LabelProblem::Missing);
            }
        }
        Ok(())
    }

    fn token(&self, label: TokenLabel) -> Result<i32, LabelProblem> {
        let (first, continued) = self.ids[label.number as usize].clone()?;
        Ok(if label.continues { continued } else { first })
    }

    /// 1 for each class that applies, 0 for the others.
    fn many(&self, label: &RowLabel) -> Result<Vec<f32>, LabelProblem> {
        let RowLabel::Many(numbers) = label else {
            return Err(LabelProblem::Missing);
        };
        let mut hot = vec![0.0; self.classes];
        for &number in numbers {
            hot[self.ids[number as usize].clone()?.0 as usize] = 1.0;
        }
        Ok(hot)
    }
}
