//! Arrow arrays, as Parquet and Arrow files hold them, to plain values.

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type,
    UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, FixedSizeListArray, OffsetSizeTrait};
use arrow_array::{GenericListArray, StructArray, new_empty_array};
use arrow_schema::DataType;

use crate::source::Value;

/// The most memory that the words of a dictionary may take.
const WORDS_MEMORY_MAX: u64 = 1 << 30;

/// Why the values of a column cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ColumnProblem {
    #[error("values of type {0} cannot be read; write them as numbers or texts")]
    Type(DataType),
    #[error("field {name:?}: {problem}")]
    Field { name: String, problem: Box<Self> },
}

impl ColumnProblem {
    fn of_field(name: &str, problem: Self) -> Self {
        Self::Field { name: name.to_owned(), problem: Box::new(problem) }
    }
}

/// One value for each element. Integers that do not fit 64 bits with a sign are null.
pub(super) fn values(array: &ArrayRef) -> Result<Vec<Value>, ColumnProblem> {
    let int = |value: i64| Value::Int(value);
    let unsigned = |value: u64| i64::try_from(value).map_or(Value::Null, Value::Int);
    Ok(match array.data_type() {
        DataType::Null => vec![Value::Null; array.len()],
        DataType::Boolean => array.as_boolean().iter().map(or_null(Value::Bool)).collect(),
        DataType::Utf8 => texts(array.as_string::<i32>().iter()),
        DataType::LargeUtf8 => texts(array.as_string::<i64>().iter()),
        DataType::Utf8View => texts(array.as_string_view().iter()),
        DataType::Binary => bytes(array.as_binary::<i32>().iter()),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().iter()),
        DataType::BinaryView => bytes(array.as_binary_view().iter()),
        DataType::Int8 => numbers::<Int8Type>(array, |value| int(value.into())),
        DataType::Int16 => numbers::<Int16Type>(array, |value| int(value.into())),
        DataType::Int32 => numbers::<Int32Type>(array, |value| int(value.into())),
        DataType::Int64 => numbers::<Int64Type>(array, int),
        DataType::UInt8 => numbers::<UInt8Type>(array, |value| int(value.into())),
        DataType::UInt16 => numbers::<UInt16Type>(array, |value| int(value.into())),
        DataType::UInt32 => numbers::<UInt32Type>(array, |value| int(value.into())),
        DataType::UInt64 => numbers::<UInt64Type>(array, unsigned),
        DataType::Float16 => numbers::<Float16Type>(array, |value| Value::Float(value.to_f64())),
        DataType::Float32 => numbers::<Float32Type>(array, |value| Value::Float(value.into())),
        DataType::Float64 => numbers::<Float64Type>(array, Value::Float),
        DataType::Dictionary(..) => dictionary(array)?,
        DataType::List(_) => lists(array.as_list::<i32>())?,
        DataType::LargeList(_) => lists(array.as_list::<i64>())?,
        DataType::FixedSizeList(..) => fixed_size_lists(array.as_fixed_size_list())?,
        DataType::Struct(_) => structs(array.as_struct())?,
        other => return Err(ColumnProblem::Type(other.clone())),
    })
}

/// Fails if values of the type cannot be read.
pub(super) fn check_type(of: &DataType) -> Result<(), ColumnProblem> {
    match of {
        DataType::Dictionary(_, words) => check_type(words),
        DataType::List(item) | DataType::LargeList(item) | DataType::FixedSizeList(item, _) => {
            check_type(item.data_type())
        }
        DataType::Struct(fields) => fields.iter().try_for_each(|field| {
            check_type(field.data_type())
                .map_err(|problem| ColumnProblem::of_field(field.name(), problem))
        }),
        of => values(&new_empty_array(of)).map(drop),
    }
}

/// The memory that the values of an array take, about, found without making them.
pub(super) fn memory(array: &ArrayRef) -> u64 {
    let own = (array.len() as u64).saturating_mul(size_of::<Value>() as u64);
    let within = match array.data_type() {
        DataType::Utf8 => text_bytes(array.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => text_bytes(array.as_string::<i64>().value_offsets()),
        DataType::Binary => text_bytes(array.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => text_bytes(array.as_binary::<i64>().value_offsets()),
        DataType::Utf8View => view_bytes(array.as_string_view().lengths()),
        DataType::BinaryView => view_bytes(array.as_binary_view().lengths()),
        DataType::Dictionary(..) => dictionary_memory(array),
        DataType::List(_) => list_memory(array.as_list::<i32>()),
        DataType::LargeList(_) => list_memory(array.as_list::<i64>()),
        DataType::FixedSizeList(..) => {
            let lists = array.as_fixed_size_list();
            let start = lists.value_offset_at(0);
            memory(&lists.values().slice(start, lists.value_offset_at(lists.len()) - start))
        }
        DataType::Struct(fields) => {
            let names = fields
                .iter()
                .map(|field| (size_of::<(String, Value)>() + field.name().len()) as u64);
            let names = names.sum::<u64>().saturating_mul(array.len() as u64);
            array.as_struct().columns().iter().map(memory).fold(names, u64::saturating_add)
        }
        _ => 0,
    };
    own.saturating_add(within)
}

fn text_bytes<O: OffsetSizeTrait>(offsets: &[O]) -> u64 {
    match offsets {
        [first, .., last] => (last.as_usize() - first.as_usize()) as u64,
        _ => 0,
    }
}

fn view_bytes(lengths: impl Iterator<Item = u32>) -> u64 {
    lengths.map(u64::from).sum()
}

fn list_memory<O: OffsetSizeTrait>(lists: &GenericListArray<O>) -> u64 {
    let bytes = text_bytes(lists.value_offsets()) as usize;
    let start = lists.value_offsets().first().map_or(0, |start| start.as_usize());
    memory(&lists.values().slice(start, bytes))
}

/// The memory of the rows, to which words are copied.
fn dictionary_memory(array: &ArrayRef) -> u64 {
    let array = array.as_any_dictionary();
    let (rows, words) = (array.len() as u64, array.values());
    let all = memory(words);
    if all > WORDS_MEMORY_MAX {
        return u64::MAX;
    }
    let most = rows.saturating_mul(all);
    if most <= WORDS_MEMORY_MAX >> 10 {
        return most;
    }
    let longest = (0..words.len()).map(|word| memory(&words.slice(word, 1))).max();
    rows.saturating_mul(longest.unwrap_or(0))
}

fn texts<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Vec<Value> {
    texts.map(or_null(|text: &str| Value::Text(text.to_owned()))).collect()
}

fn bytes<'a>(bytes: impl Iterator<Item = Option<&'a [u8]>>) -> Vec<Value> {
    bytes.map(or_null(|bytes: &[u8]| Value::Bytes(bytes.to_vec()))).collect()
}

fn numbers<T: ArrowPrimitiveType>(
    array: &ArrayRef,
    value: impl Fn(T::Native) -> Value,
) -> Vec<Value> {
    array.as_primitive::<T>().iter().map(or_null(value)).collect()
}

fn dictionary(array: &ArrayRef) -> Result<Vec<Value>, ColumnProblem> {
    let array = array.as_any_dictionary();
    let words = values(array.values())?;
    if words.is_empty() {
        return Ok(vec![Value::Null; array.len()]);
    }
    let keys = array.normalized_keys().into_iter().enumerate();
    let word = |(row, key): (usize, usize)| {
        if array.is_null(row) { Value::Null } else { words[key].clone() }
    };
    Ok(keys.map(word).collect())
}

fn lists<O: OffsetSizeTrait>(array: &GenericListArray<O>) -> Result<Vec<Value>, ColumnProblem> {
    let bounds: Vec<usize> = array.value_offsets().iter().map(|offset| offset.as_usize()).collect();
    lists_within(array, &bounds, array.values())
}

fn fixed_size_lists(array: &FixedSizeListArray) -> Result<Vec<Value>, ColumnProblem> {
    let bounds: Vec<usize> = (0..=array.len()).map(|row| array.value_offset_at(row)).collect();
    lists_within(array, &bounds, array.values())
}

/// The items of all lists are converted at once: most lists are short, and there are many.
fn lists_within(
    array: &dyn Array,
    bounds: &[usize],
    items: &ArrayRef,
) -> Result<Vec<Value>, ColumnProblem> {
    let (start, end) = (bounds[0], bounds[array.len()]);
    let mut items = values(&items.slice(start, end - start))?.into_iter();
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

fn or_null<T>(wrap: impl Fn(T) -> Value) -> impl Fn(Option<T>) -> Value {
    move |value| value.map_or(Value::Null, &wrap)
}
