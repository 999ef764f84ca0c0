//! A label as it stands in the file.

use std::fmt;

use super::IGNORED_LABEL;
use crate::error::LabelProblem;
use crate::source::{Value, truth_of_text};

/// Missing values as Python, NumPy and pandas write them into text.
const MISSING_IN_PYTHON: [&str; 4] = ["nan", "NaN", "None", "<NA>"];

/// An integer, or anything else as text. Integers written as text are integers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RawLabel {
    Integer(i64),
    Text(String),
}

impl RawLabel {
    pub(super) fn read(value: &Value) -> Result<Self, LabelProblem> {
        match value {
            Value::Null => Err(LabelProblem::Missing),
            Value::Text(text) if text.is_empty() => Err(LabelProblem::Missing),
            Value::Text(text) => Ok(Self::of_text(text)),
            Value::Int(integer) => Ok(Self::Integer(*integer)),
            Value::Bool(flag) => Ok(Self::Integer(i64::from(*flag))),
            // Columns with gaps turn integers into floats in pandas and spreadsheets.
            Value::Float(float) if float.fract() == 0.0 && float.abs() < 1e15 => {
                Ok(Self::Integer(*float as i64))
            }
            Value::Float(float) => Err(LabelProblem::Fraction { found: float.to_string() }),
            Value::List(_) => Err(LabelProblem::SeveralClasses),
            Value::Bytes(_) | Value::Struct(_) => {
                Err(LabelProblem::NotAClass { found: value.kind().to_owned() })
            }
        }
    }

    /// The integer, also one that pandas wrote as a float (`1.0`).
    pub(super) fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(integer) => Some(*integer),
            Self::Text(text) => match Self::of_text(text.trim().strip_suffix(".0")?) {
                Self::Integer(integer) => Some(integer),
                Self::Text(_) => None,
            },
        }
    }

    /// The number of the truth value that a text is in a file without types.
    pub(super) fn truth(&self) -> Option<i64> {
        match self {
            Self::Integer(_) => None,
            Self::Text(text) => truth_of_text(text).map(i64::from),
        }
    }

    /// Whether it marks a row or a word that no loss counts.
    pub(super) fn is_ignored(&self) -> bool {
        *self == Self::Integer(IGNORED_LABEL.into())
    }

    /// Whether it is a missing value that Python wrote as text.
    pub(super) fn is_missing_in_python(&self) -> bool {
        matches!(self, Self::Text(text) if MISSING_IN_PYTHON.contains(&text.as_str()))
    }

    /// Only the usual spelling counts as an integer, with or without space around it, as pandas reads it:
    /// "007" is a name.
    pub(super) fn of_text(text: &str) -> Self {
        let trimmed = text.trim();
        let integer = trimmed.parse().ok().filter(|integer: &i64| integer.to_string() == trimmed);
        integer.map_or_else(|| Self::Text(text.to_owned()), Self::Integer)
    }
}

impl fmt::Display for RawLabel {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(integer) => integer.fmt(out),
            Self::Text(text) => text.fmt(out),
        }
    }
}

/// A float or a boolean that says whether a class applies.
pub(super) fn flag(value: &Value) -> Option<RawLabel> {
    match value {
        Value::Bool(applies) => Some(RawLabel::Integer(i64::from(*applies))),
        Value::Float(float) if *float == 0.0 || *float == 1.0 => {
            Some(RawLabel::Integer(*float as i64))
        }
        Value::Float(float) => Some(RawLabel::Text(float.to_string())),
        _ => None,
    }
}

/// Returns true if a list has items that can only state whether a class applies.
pub(super) fn has_flags(value: &Value) -> bool {
    let Value::List(items) = value else { return false };
    items.iter().any(|item| matches!(item, Value::Float(_) | Value::Bool(_)))
}

/// The value as `count` regression targets: a number, or a list where there are several.
pub(super) fn numbers(value: &Value, count: u32) -> Result<Vec<f32>, LabelProblem> {
    match (value, count) {
        (_, 1) => Ok(vec![number(value)?]),
        (Value::List(items), _) if items.len() == count as usize => {
            items.iter().map(number).collect()
        }
        (Value::List(items), _) => {
            Err(LabelProblem::Count { found: items.len(), num_labels: count })
        }
        (Value::Null, _) => Err(LabelProblem::Missing),
        (other, _) => Err(LabelProblem::NotAList { found: other.kind() }),
    }
}

/// Finite, or an error.
pub(super) fn number(value: &Value) -> Result<f32, LabelProblem> {
    let number = match value {
        Value::Null => return Err(LabelProblem::Missing),
        Value::Int(integer) => Some(*integer as f32),
        Value::Float(float) => Some(*float as f32),
        Value::Bool(flag) => Some(f32::from(u8::from(*flag))),
        Value::Text(text) => {
            let truth = || truth_of_text(text).map(|flag| f32::from(u8::from(flag)));
            text.trim().parse().ok().or_else(truth)
        }
        Value::Bytes(_) | Value::List(_) | Value::Struct(_) => None,
    };
    let found = || match value {
        Value::Text(text) => format!("{text:?}"),
        other => other.kind().to_owned(),
    };
    let number = number.filter(|number| number.is_finite());
    number.ok_or_else(|| LabelProblem::NotANumber { found: found() })
}
