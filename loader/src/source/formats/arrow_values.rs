//! Arrow arrays, as Parquet and Arrow files hold them, to plain values.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type};
use arrow_array::{Array, ArrayRef, ListArray, StructArray};
use arrow_cast::cast;
use arrow_schema::DataType;

use crate::source::Value;

/// One value for each element. The error says which type has no counterpart here.
pub(super) fn values(array: &ArrayRef) -> Result<Vec<Value>, String> {
    let plain = plain_type(array.data_type())?;
    if let DataType::Struct(_) = plain {
        return structs(array.as_struct());
    }
    let array = &cast(array, &plain).map_err(|error| error.to_string())?;
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
fn lists(array: &ListArray) -> Result<Vec<Value>, String> {
    let bounds: Vec<usize> = array.value_offsets().iter().map(|&offset| offset as usize).collect();
    let (start, end) = (bounds[0], bounds[array.len()]);
    let mut items = values(&array.values().slice(start, end - start))?.into_iter();
    let list = |row: usize| {
        let items: Vec<Value> = items.by_ref().take(bounds[row + 1] - bounds[row]).collect();
        if array.is_null(row) { Value::Null } else { Value::List(items) }
    };
    Ok((0..array.len()).map(list).collect())
}

fn structs(array: &StructArray) -> Result<Vec<Value>, String> {
    let mut fields = Vec::new();
    for (name, column) in array.column_names().into_iter().zip(array.columns()) {
        let column = values(column).map_err(|message| format!("field {name:?}: {message}"))?;
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
fn plain_type(given: &DataType) -> Result<DataType, String> {
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
        other => return Err(format!("values of type {other} cannot be read")),
    })
}

fn or_null<T>(wrap: impl Fn(T) -> Value) -> impl Fn(Option<T>) -> Value {
    move |value| value.map_or(Value::Null, &wrap)
}
