//! Raw labels to class ids (or to numbers, for regression).
//!
//! With `label_map`, ids are given in order of first appearance of its names. Without, a column of
//! the integers from 0 on is taken as ids, and so is any of integers where `num_labels` is given;
//! other values are names that get ids in sorted order. Numbers of classes that a file has names for
//! are these names, in the file's order. A column whose every value
//! reads as an integer is one of integers, in every format, CSV having no types. A column may also
//! hold a list a row: labels of its words, or all classes that apply to it.

mod doubtful;
mod encoder;
mod ignored;
mod interner;
mod one_hot;
mod raw;
mod scale;
mod set_labels;
#[cfg(test)]
mod tests;

use serde::Serialize;

pub(crate) use doubtful::about_doubtful;
use encoder::Lookup;
pub use encoder::{LabelEncoder, LabelTarget};
use ignored::IgnoredLabels;
use interner::Interner;
pub use one_hot::LabelFormat;
pub(crate) use one_hot::LabelLists;
use raw::RawLabel;
pub use scale::LabelScale;
pub(crate) use set_labels::{LabelArrays, of_rows};
pub use set_labels::{Labels, MultiLabels};

use crate::error::{Error, LabelProblem, Location, Result};
use crate::source::{Row, Value};

/// The label of a token without a target, which losses and metrics ignore.
pub const IGNORED_LABEL: i32 = -100;

/// The column of labels, and how they become targets.
#[derive(Clone, Debug, Serialize)]
pub struct LabelSpec {
    /// The column that has the labels.
    pub column: String,
    /// The kind of labels.
    pub kind: LabelKind,
    /// The column of each labelled row's weight in the loss; all count alike without one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<String>,
    /// Labels whose rows are left out, and whose words no loss counts. The empty text is a missing label.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
}

/// How raw labels become targets.
#[derive(Clone, Debug, Serialize)]
pub enum LabelKind {
    /// Class ids by a rule that the data define. Ids at and beyond `num_labels`, if it is given,
    /// are refused.
    Infer {
        /// The number of classes; any number without.
        num_labels: Option<u32>,
    },
    /// Class ids by the rule of `Infer`, but where the data have no other names than these, ids are places among
    /// them: the model that is trained further has these classes.
    InferNamed {
        /// The names of the model's classes, by id.
        names: Vec<String>,
        /// The number of classes; any number without.
        num_labels: Option<u32>,
    },
    /// Class ids by a fixed rule: a `label_map`, or what the training split arrived at.
    Encoder(LabelEncoder),
    /// A number a row, or a list of so many.
    Regression {
        /// The numbers of a row.
        num_labels: u32,
    },
    /// A list of classes a row, all of which apply; ids by `encoder`, or as with `InferNamed`. Or a
    /// list of one number a class; `format` says which, and the column where it is None.
    MultiLabel {
        /// The rule that makes ids of names; inferred without.
        encoder: Option<LabelEncoder>,
        /// The names of the model's classes, by id.
        names: Vec<String>,
        /// The number of classes; any number without.
        num_labels: Option<u32>,
        /// The form of a row's list.
        format: Option<LabelFormat>,
    },
}

impl LabelKind {
    fn encoder(&self) -> Option<&LabelEncoder> {
        match self {
            Self::Encoder(encoder) => Some(encoder),
            Self::MultiLabel { encoder, .. } => encoder.as_ref(),
            Self::Infer { .. } | Self::InferNamed { .. } | Self::Regression { .. } => None,
        }
    }

    fn num_labels(&self) -> Option<u32> {
        match self {
            Self::Infer { num_labels }
            | Self::InferNamed { num_labels, .. }
            | Self::MultiLabel { num_labels, .. } => *num_labels,
            Self::Encoder(_) | Self::Regression { .. } => None,
        }
    }

    /// The names of the model's classes.
    fn names(&self) -> &[String] {
        match self {
            Self::InferNamed { names, .. } | Self::MultiLabel { names, .. } => names,
            Self::Infer { .. } | Self::Encoder(_) | Self::Regression { .. } => &[],
        }
    }

    /// The same kind with the ids that the training split arrived at, for the other splits.
    pub fn with_encoder(&self, encoder: LabelEncoder) -> Self {
        match self {
            Self::MultiLabel { num_labels, .. } => {
                let format = Some(encoder.list_format());
                let (names, num_labels) = (Vec::new(), *num_labels);
                Self::MultiLabel { encoder: Some(encoder), names, num_labels, format }
            }
            Self::Infer { .. } | Self::InferNamed { .. } | Self::Encoder(_) => {
                Self::Encoder(encoder)
            }
            Self::Regression { num_labels } => Self::Regression { num_labels: *num_labels },
        }
    }
}

/// A label as far as its row alone determines it.
///
/// Classes are represented by the numbers that [`LabelReader`] gave them: columns repeat few
/// labels many times.
#[derive(Clone, Debug)]
pub(crate) enum RowLabel {
    Class(u32),
    Numbers(Vec<f32>),
    /// The number of the label of each token's word, or None.
    Tokens(Vec<Option<TokenLabel>>),
    /// The numbers of the labels of a list, and whether they can only say of each class whether it
    /// applies.
    Many(Vec<u32>, bool),
    /// The target of each token, or [`IGNORED_LABEL`].
    TokenIds(Vec<i32>),
    /// The first and the last token of an answer.
    Span(i32, i32),
}

/// The label of a token's word, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct TokenLabel {
    pub(crate) number: u32,
    /// Whether it is not the first token of its word: a label `B-X` means `I-X` here.
    pub(crate) continues: bool,
}

/// Reads labels row by row, then determines the ids, which depend on the whole column.
pub(crate) struct LabelReader<'spec> {
    spec: &'spec LabelSpec,
    lookup: Option<Lookup<'spec>>,
    /// The names of each file's classes, where it has any.
    class_names: Vec<Option<Vec<String>>>,
    ignored: IgnoredLabels,
    interner: Interner,
}

impl<'spec> LabelReader<'spec> {
    /// `class_names` are those of [`crate::Source::class_names`].
    pub(crate) fn new(spec: &'spec LabelSpec, class_names: Vec<Option<Vec<String>>>) -> Self {
        let lookup = spec.kind.encoder().map(LabelEncoder::lookup);
        let ignored = IgnoredLabels::of(&spec.ignored);
        Self { spec, lookup, class_names, ignored, interner: Interner::default() }
    }

    /// Returns true where the spec leaves out the row for its label.
    pub(crate) fn leaves_out(&self, row: &Row<'_>) -> bool {
        let ignored = |value| self.ignored.has(value, self.names_in(row));
        row.find(&self.spec.column).is_some_and(ignored)
    }

    /// Reads one row's label.
    pub(crate) fn read(&self, row: &Row<'_>) -> Result<RowLabel> {
        if let LabelKind::MultiLabel { format: Some(LabelFormat::Classes), .. } = self.spec.kind {
            return Ok(RowLabel::Many(self.read_list(row)?, false));
        }
        if self.has_lists() {
            let cell = row.cell(&self.spec.column);
            let names = self.names_in(row);
            let numbers = self.list(cell, |item| {
                let flag = raw::flag(item).map(Ok);
                Ok(self.interner.number(flag.unwrap_or_else(|| self.class(item, names))?))
            });
            let numbers = numbers.map_err(|problem| self.error(row.location(), problem))?;
            return Ok(RowLabel::Many(numbers, raw::has_flags(cell)));
        }
        let label = self.row_label(row.cell(&self.spec.column), self.names_in(row));
        label.map_err(|problem| self.error(row.location(), problem))
    }

    /// Reads one row's number, or its list of any length.
    pub(crate) fn read_numbers(&self, row: &Row<'_>) -> Result<Vec<f32>> {
        let numbers = match row.cell(&self.spec.column) {
            Value::List(items) => items.iter().map(raw::number).collect(),
            value => raw::number(value).map(|number| vec![number]),
        };
        numbers.map_err(|problem| self.error(row.location(), problem))
    }

    /// Reads one row's weight in the loss; `None` where all count alike.
    pub(crate) fn read_weight(&self, row: &Row<'_>) -> Result<Option<f32>> {
        let Some(column) = &self.spec.weight else { return Ok(None) };
        let found = match raw::number(row.cell(column)) {
            Ok(weight) if weight >= 0.0 => return Ok(Some(weight)),
            Ok(negative) => negative.to_string(),
            Err(LabelProblem::NotANumber { found }) => found,
            Err(_) => "nothing".to_owned(),
        };
        Err(Error::Weight { at: row.location(), column: column.clone(), found })
    }

    /// Reads the labels of one row's words: a number for each, none for one that no loss counts.
    pub(crate) fn read_words(&self, row: &Row<'_>) -> Result<Vec<Option<u32>>> {
        let names = self.names_in(row);
        let number = |item: &Value| match self.number(item, names) {
            Err(_) if RawLabel::read(item)?.is_ignored() => Ok(None),
            number => number.map(Some),
        };
        // A number is that of a class, which ignored labels are not.
        let numbers = self.list(row.cell(&self.spec.column), |item| {
            if self.ignored.has(item, names) { Ok(None) } else { number(item) }
        });
        numbers.map_err(|problem| self.error(row.location(), problem))
    }

    /// Reads one row's list of labels: a number for each.
    fn read_list(&self, row: &Row<'_>) -> Result<Vec<u32>> {
        let names = self.names_in(row);
        let numbers = self.list(row.cell(&self.spec.column), |item| self.number(item, names));
        numbers.map_err(|problem| self.error(row.location(), problem))
    }

    fn list<T>(
        &self,
        value: &Value,
        number: impl Fn(&Value) -> Result<T, LabelProblem>,
    ) -> Result<Vec<T>, LabelProblem> {
        match value {
            Value::List(items) => items.iter().map(number).collect(),
            Value::Null => Err(LabelProblem::Missing),
            other => Err(LabelProblem::NotAList { found: other.kind() }),
        }
    }

    fn row_label(&self, value: &Value, names: Option<&[String]>) -> Result<RowLabel, LabelProblem> {
        match self.spec.kind {
            LabelKind::Regression { num_labels } => {
                raw::numbers(value, num_labels).map(RowLabel::Numbers)
            }
            _ => self.number(value, names).map(RowLabel::Class),
        }
    }

    /// The names of classes in a row's file.
    fn names_in(&self, row: &Row<'_>) -> Option<&[String]> {
        self.class_names.get(row.file())?.as_deref()
    }

    /// A label, by its name where `names` has one for its number. A rule that is given decides between
    /// the two, and whether a boolean is its text: numbers count where the rule knows none of the names.
    fn class(&self, value: &Value, names: Option<&[String]>) -> Result<RawLabel, LabelProblem> {
        let raw = RawLabel::read(value)?;
        let number = || raw.integer().and_then(|number| usize::try_from(number).ok());
        let name = match (value, &self.lookup) {
            (Value::Bool(flag), Some(_)) => Some(flag.to_string()),
            (Value::Bool(_), None) => None,
            _ => names.and_then(|names| names.get(number()?)).cloned(),
        };
        let Some(named) = name.map(RawLabel::Text) else { return Ok(raw) };
        match &self.lookup {
            Some(lookup) if !lookup.takes_name(&named) => {
                match names.is_some_and(|names| lookup.knows_any(names)) {
                    true => Err(lookup.unknown_class(&named)),
                    false => Ok(raw),
                }
            }
            _ => Ok(named),
        }
    }

    /// The number of a class. By a rule that is given, the class must have an id.
    fn number(&self, value: &Value, names: Option<&[String]>) -> Result<u32, LabelProblem> {
        let raw = self.class(value, names)?;
        match &self.lookup {
            Some(lookup) => lookup.id(&raw).map(|_| ())?,
            None if raw.is_ignored() => return Err(LabelProblem::Ignored),
            None => {}
        }
        Ok(self.interner.number(raw))
    }

    /// Fails if the rows so far have more distinct labels than a classifier may have: the column is
    /// probably a wrong one, and would be kept in memory as a whole.
    pub(crate) fn check_count(&self) -> Result<()> {
        let max = encoder::CLASSES_MAX;
        match self.interner.len() {
            count if count > max && (self.lookup.is_none() || self.has_lists()) => {
                Err(Error::TooManyLabels { column: self.spec.column.clone(), max })
            }
            _ => Ok(()),
        }
    }

    /// Labels of lists are not looked up before all rows are read.
    fn has_lists(&self) -> bool {
        matches!(self.spec.kind, LabelKind::MultiLabel { .. })
    }

    /// The rule for lists of one number a class, and the classes that apply to each row; None for
    /// lists of classes. A row that is no such list is given to `at`.
    pub(crate) fn one_hot(
        &self,
        lists: &LabelLists,
        at: impl Fn(u64, LabelProblem) -> Error,
    ) -> Result<Option<(LabelEncoder, Vec<Vec<i32>>)>> {
        let LabelKind::MultiLabel { encoder, num_labels, format, .. } = &self.spec.kind else {
            return Ok(None);
        };
        let labels = self.interner.labels();
        let known = encoder.as_ref().map(LabelEncoder::num_labels).or(*num_labels);
        let format = format.or_else(|| lists.format(&labels, known));
        let ambiguous = || Error::LabelFormat { column: self.spec.column.clone() };
        if format.ok_or_else(ambiguous)? == LabelFormat::Classes {
            return Ok(None);
        }
        let classes = known.map_or_else(|| lists.first_length(), |count| count as usize);
        let rows = (0..).zip(lists.rows()).map(|(row, numbers)| {
            let found = one_hot::classes_of(numbers, &labels, classes);
            found.map_err(|problem| at(row, problem))
        });
        let rows = rows.collect::<Result<Vec<_>>>()?;
        let of_model = || Some(self.spec.kind.names()).filter(|names| names.len() == classes);
        let names = encoder.as_ref().map(LabelEncoder::id2label).or_else(of_model);
        Ok(Some((LabelEncoder::one_hot(names.unwrap_or_default(), classes)?, rows)))
    }

    /// The numbers that a row of regression has.
    pub(crate) fn width(&self) -> usize {
        match self.spec.kind {
            LabelKind::Regression { num_labels } => num_labels as usize,
            _ => 1,
        }
    }

    /// The rule by which the labels of all rows become ids, and the ids of their numbers; none
    /// for regression.
    pub(crate) fn rule(&self) -> Result<(Option<LabelEncoder>, NumberedIds)> {
        if let LabelKind::Regression { .. } = self.spec.kind {
            return Ok((None, NumberedIds::default()));
        }
        let numbered = self.interner.labels();
        let encoder = match self.spec.kind.encoder() {
            Some(encoder) => encoder.clone(),
            None => self.infer(&numbered)?,
        };
        encoder.check_column(&self.spec.column, &numbered)?;
        let ids = NumberedIds::new(&encoder, &numbered);
        Ok((Some(encoder), ids))
    }

    fn infer(&self, labels: &[RawLabel]) -> Result<LabelEncoder> {
        self.check_missing(labels)?;
        let num_labels = self.spec.kind.num_labels();
        let encoder = LabelEncoder::infer(labels.iter(), &self.all_class_names(), num_labels);
        if let LabelKind::Infer { num_labels: None }
        | LabelKind::InferNamed { num_labels: None, .. } = self.spec.kind
        {
            self.check_classes(encoder.id2label())?;
        }
        let names = self.spec.kind.names();
        let encoder = match num_labels.is_none_or(|count| count as usize == names.len()) {
            true => encoder.ordered_as(names),
            false => encoder,
        };
        encoder.widened(num_labels, "model.num_labels")
    }

    /// The names of classes in all files, each once. Where all files have them sorted, as folders of
    /// images do, so are all together.
    fn all_class_names(&self) -> Vec<String> {
        let of_files = || self.class_names.iter().flatten();
        let mut all: Vec<String> = Vec::new();
        for name in of_files().flatten() {
            if !all.contains(name) {
                all.push(name.clone());
            }
        }
        if of_files().all(|names| names.is_sorted()) {
            all.sort();
        }
        all
    }

    /// Fails if a column has numbers and what Python writes for a missing value, which is no class then.
    fn check_missing(&self, labels: &[RawLabel]) -> Result<()> {
        let is_number = |label: &&RawLabel| label.integer().is_some();
        let missing = labels.iter().find(|label| label.is_missing_in_python());
        match missing.filter(|_| labels.iter().any(|label| is_number(&label))) {
            Some(label) => Err(Error::MissingLabels {
                column: self.spec.column.clone(),
                label: label.to_string(),
            }),
            None => Ok(()),
        }
    }

    /// Fails if a column that was not declared to hold classes does not look like it.
    fn check_classes(&self, names: &[String]) -> Result<()> {
        let column = || self.spec.column.clone();
        if let [only] = names {
            return Err(Error::OneLabel { column: column(), label: only.clone() });
        }
        let number = |name: &String| name.parse().ok().filter(|number: &f64| number.is_finite());
        let numbers: Option<Vec<f64>> = names.iter().map(number).collect();
        let fraction = numbers.into_iter().flatten().find(|number| number.fract() != 0.0);
        fraction.map_or(Ok(()), |found| Err(Error::LabelsAreNumbers { column: column(), found }))
    }

    /// `problem` as an error at `at`.
    pub(crate) fn error(&self, at: Location, problem: LabelProblem) -> Error {
        Error::Label { at, column: self.spec.column.clone(), problem: Box::new(problem) }
    }
}

/// The id of each numbered label, and of the tokens that continue its word.
#[derive(Default)]
pub(crate) struct NumberedIds {
    ids: Vec<Result<(i32, i32), LabelProblem>>,
}

impl NumberedIds {
    fn new(encoder: &LabelEncoder, numbered: &[RawLabel]) -> Self {
        let lookup = encoder.lookup();
        let ids = numbered.iter().map(|raw| {
            let id = lookup.id(raw)?;
            Ok((id, encoder.continued(id)))
        });
        Self { ids: ids.collect() }
    }

    pub(crate) fn of(&self, label: TokenLabel) -> Result<i32, LabelProblem> {
        let (first, continued) = self.ids[label.number as usize].clone()?;
        Ok(if label.continues { continued } else { first })
    }
}
