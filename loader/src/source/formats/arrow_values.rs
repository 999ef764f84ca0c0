//! Arrow arrays, as Parquet and Arrow files hold them, to plain values.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_cast::cast;
use arrow_schema::{ArrowError, DataType};

use crate::source::Value;

/// Why the values of a column cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ColumnProblem {
    #[error("values of type {0} cannot be read")]
    Type(DataType),
    #[error(transparent)]
    Cast(#[from] ArrowError),
    #[error("field {name:?}: {problem}")]
    Field { name: String, problem: Box<Self> },
}

impl ColumnProblem {
    fn of_field(name: &str, problem: Self) -> Self {
        Self::Field { name: name.to_owned(), problem: Box::new(problem) }
    }
}

/// One value for each element.
pub(super) fn values(array: &ArrayRef) -> Result<Vec<Value>, ColumnProblem> {
    let plain = plain_type(array.data_type())?;
    if let DataType::Struct(_) = plain {
        return structs(array.as_struct());
    }
    let array = &cast(array, &plain)?;
    let filled: Vec<Value> = match plain {
        DataType::Null => vec![Value::Null; array.len()],
        DataType::Boolean => array.as_boolean().iter().map(or_null(Value::Bool)).collect(),
        DataType::Int64 => {
            array.as_primitive::<Int64Type>().iter().map(or_null(Value::Int)).collect()
        }
        DataType::Float64 => {
            array.as_primitive::<Float64Type>().iter().map(or_null(Value::Float)).collect()
        }
        DataType::List(_) => lists(array.as_list())?,
        _ => {
            let texts = array.as_string::<i64>().iter();
            texts.map(or_null(|text: &str| Value::Text(text.to_owned()))).collect()
        }
    };
    Ok(filled)
}

/// The items of all lists are converted at once: most lists are short, and there are many.
fn lists(array: &ListArray) -> Result<Vec<Value>, ColumnProblem> {
    let bounds: Vec<usize> = array.value_offsets().iter().map(|&offset| offset as usize).collect();
    let (start, end) = (bounds[0], bounds[array.len()]);
    let mut items = values(&array.values().slice(start, end - start))?.into_iter();
    let list = |row: usize| {
        let items: Vec<Value> = items.by_ref().take(bounds[row + 1] - bounds[row]).collect();
        if array.is_null(row) { Value::Null } else { Value::List(items) }
    };
    Ok((0..array.len()).map(list).collect())
}

fn structs(array: &StructArray) -> Result<Vec<Value>, ColumnProblem> {
    let mut fields = Vec::new();
    for (name, column) in array.column_names().into_iter().zip(array.columns()) {
        let column = values(column).map_err(|problem| ColumnProblem::of_field(name, problem))?;
        fields.push((name, column.into_iter()));
    }
    let mut one = |row| {
        let named = fields
            .iter_mut()
            .map(|(name, column)| ((*name).to_owned(), column.next().unwrap_or(Value::Null)));
        let named = named.collect();
        if array.is_null(row) { Value::Null } else { Value::Struct(named) }
    };
    Ok((0..array.len()).map(&mut one).collect())
}

/// The one type that stands for all of its kind: a dictionary of narrow strings is text.
fn plain_type(given: &DataType) -> Result<DataType, ColumnProblem> {
    Ok(match given {
        DataType::Null => DataType::Null,
        DataType::Boolean => DataType::Boolean,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => DataType::LargeUtf8,
        DataType::Dictionary(_, value) => plain_type(value)?,
        DataType::Float16 | DataType::Float32 | DataType::Float64 => DataType::Float64,
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            DataType::List(item.clone())
        }
        DataType::Struct(fields) => DataType::Struct(fields.clone()),
        integer if integer.is_integer() => DataType::Int64,
        other => return Err(ColumnProblem::Type(other.clone())),
    })
}

fn or_null<T>(wrap: impl Fn(T) -> Value) -> impl Fn(Option<T>) -> Value {
    move |value| value.map_or(Value::Null, &wrap)
}
