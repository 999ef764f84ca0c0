//! Columns renamed, dropped, put together and cast on the way from the files to the tasks (`data.columns`).

use serde::Serialize;

use super::Value;
use crate::error::{Error, Result};

/// Changes to the columns of every file, made in this order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Columns {
    /// Pairs of a name in the file and the name that is used from then on.
    pub rename: Vec<(String, String)>,
    /// The columns to leave out, by their new names.
    pub drop: Vec<String>,
    /// Columns of lists, each with the columns, by their new names, that a row's list has the values of.
    pub lists: Vec<(String, Vec<String>)>,
    /// The columns to convert, by their new names.
    pub cast: Vec<(String, CastType)>,
}

/// The type that a column's values are converted to, named as in `datasets`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum CastType {
    /// Text.
    String,
    /// Whole numbers of 64 bits.
    Int64,
    /// Numbers of 64 bits.
    Float64,
    /// Truth values.
    Bool,
}

impl Columns {
    /// The columns that a file with `names` has after renaming and dropping, and lists of them.
    pub(super) fn apply(&self, names: Vec<String>) -> Vec<String> {
        let renamed = names.into_iter().map(|name| {
            let entry = self.rename.iter().find(|(from, _)| *from == name);
            entry.map_or(name, |(_, to)| to.clone())
        });
        let mut names: Vec<String> = renamed.filter(|name| !self.drop.contains(name)).collect();
        for (list, parts) in &self.lists {
            if !names.contains(list) && parts.iter().all(|part| names.contains(part)) {
                names.push(list.clone());
            }
        }
        names
    }

    /// The columns whose values a list has; `None` of another column.
    pub(super) fn parts_of(&self, name: &str) -> Option<&[String]> {
        let entry = self.lists.iter().find(|(list, _)| list == name);
        entry.map(|(_, parts)| parts.as_slice())
    }

    /// The columns with those that lists are made of in their places, each once.
    pub(super) fn with_parts<'name>(&'name self, columns: &[&'name str]) -> Vec<&'name str> {
        let mut names = Vec::new();
        for column in columns {
            let parts = self.parts_of(column);
            let parts = parts.map(|parts| parts.iter().map(String::as_str).collect());
            for part in parts.unwrap_or_else(|| vec![*column]) {
                if !names.contains(&part) {
                    names.push(part);
                }
            }
        }
        names
    }

    /// The file's name of a column.
    pub(super) fn in_file<'name>(&'name self, name: &'name str) -> &'name str {
        let entry = self.rename.iter().find(|(_, to)| to == name);
        entry.map_or(name, |(from, _)| from)
    }

    /// The type that the values of a column are converted to, if any.
    pub(super) fn cast_of(&self, name: &str) -> Option<CastType> {
        self.cast.iter().find(|(cast, _)| cast == name).map(|(_, kind)| *kind)
    }

    /// Fails where two columns are renamed to one, one is both cast and dropped, or a list has lists.
    pub(super) fn check(&self) -> Result<()> {
        let bad = |message| Err(Error::BadOption { field: "data.columns", message });
        for (place, (from, to)) in self.rename.iter().enumerate() {
            let others = &self.rename[..place];
            if others.iter().any(|(other, target)| other == from || target == to) {
                return bad(format!("{from:?} to {to:?} is renamed twice"));
            }
        }
        for (list, parts) in &self.lists {
            if let Some(part) = parts.iter().find(|part| self.parts_of(part).is_some()) {
                return bad(format!("{part:?} of {list:?} is a list itself"));
            }
        }
        match self.cast.iter().find(|(name, _)| self.drop.contains(name)) {
            Some((name, _)) => bad(format!("{name:?} is both dropped and cast")),
            None => Ok(()),
        }
    }
}

impl CastType {
    /// The type of this name, as `datasets` spells it.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::String, Self::Int64, Self::Float64, Self::Bool]
            .into_iter()
            .find(|kind| kind.name() == name)
    }

    /// Its name in `datasets`.
    pub fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Int64 => "int64",
            Self::Float64 => "float64",
            Self::Bool => "bool",
        }
    }

    /// Converts a value, or each item of a list; the error is the value that cannot be.
    pub(super) fn apply(self, value: &Value) -> Result<Value, &Value> {
        let converted = match (self, value) {
            (_, Value::Null) => Some(Value::Null),
            (_, Value::List(items)) => {
                let items = items.iter().map(|item| self.apply(item));
                return items.collect::<Result<_, _>>().map(Value::List);
            }
            (Self::String, value) => as_text(value).map(Value::Text),
            (Self::Int64, value) => as_integer(value).map(Value::Int),
            (Self::Float64, value) => as_float(value).map(Value::Float),
            (Self::Bool, value) => as_bool(value).map(Value::Bool),
        };
        converted.ok_or(value)
    }
}

/// A value of a list, where files of text have numbers and truth values as texts.
pub(super) fn element(value: &Value) -> Value {
    let Value::Text(_) = value else { return value.clone() };
    let number = as_integer(value).map(Value::Int).or_else(|| as_float(value).map(Value::Float));
    number.or_else(|| as_bool(value).map(Value::Bool)).unwrap_or_else(|| value.clone())
}

/// A value in the text of an error.
pub(super) fn shown(value: &Value) -> String {
    match value {
        Value::Text(text) => format!("{text:?}"),
        value => as_text(value).unwrap_or_else(|| value.kind().to_owned()),
    }
}

fn as_text(value: &Value) -> Option<String> {
    match value {
        Value::Bool(flag) => Some(flag.to_string()),
        Value::Int(integer) => Some(integer.to_string()),
        Value::Float(float) => Some(float.to_string()),
        Value::Text(text) => Some(text.clone()),
        Value::Null | Value::Bytes(_) | Value::List(_) | Value::Struct(_) => None,
    }
}

fn as_integer(value: &Value) -> Option<i64> {
    match value {
        Value::Bool(flag) => Some(i64::from(*flag)),
        Value::Int(integer) => Some(*integer),
        Value::Float(float) => {
            (float.fract() == 0.0 && float.abs() < 1e15).then_some(*float as i64)
        }
        Value::Text(text) => text.trim().parse().ok(),
        Value::Null | Value::Bytes(_) | Value::List(_) | Value::Struct(_) => None,
    }
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Bool(flag) => Some(f64::from(u8::from(*flag))),
        Value::Int(integer) => Some(*integer as f64),
        Value::Float(float) => Some(*float),
        Value::Text(text) => text.trim().parse().ok(),
        Value::Null | Value::Bytes(_) | Value::List(_) | Value::Struct(_) => None,
    }
}

fn as_bool(value: &Value) -> Option<bool> {
    match value {
        Value::Bool(flag) => Some(*flag),
        Value::Int(integer @ (0 | 1)) => Some(*integer == 1),
        Value::Text(text) => match text.trim().to_lowercase().as_str() {
            "true" | "1" => Some(true),
            "false" | "0" => Some(false),
            _ => None,
        },
        _ => None,
    }
}
