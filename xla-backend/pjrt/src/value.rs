//! Named values: options for the plugin, attributes and statistics from it.
#![allow(unsafe_code)]

use crate::ffi::{self, CStruct, NamedPayload, NamedValue, copy_slice, copy_string};
use std::collections::BTreeMap;
use std::ffi::c_char;

/// A value of one of PJRT's five types. Plugins check the type strictly: a float
/// where an integer is due is an error.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// A text.
    String(String),
    /// A whole number.
    Int64(i64),
    /// Whole numbers, such as coordinates.
    Int64List(Vec<i64>),
    /// A number.
    Float(f32),
    /// A switch.
    Bool(bool),
}

macro_rules! value_from {
    ($($from:ty => $variant:ident;)*) => {$(
        impl From<$from> for Value {
            fn from(value: $from) -> Self {
                Value::$variant(value.into())
            }
        }
    )*};
}

value_from! {
    &str => String;
    String => String;
    i32 => Int64;
    i64 => Int64;
    Vec<i64> => Int64List;
    f32 => Float;
    bool => Bool;
}

/// Values by name, as a plugin reports them.
pub type Attributes = BTreeMap<String, Value>;

/// `name` and `value` must outlive the use of the result, which points into them.
pub(crate) fn to_raw(name: &str, value: &Value) -> NamedValue {
    let (value_type, payload, value_size) = match value {
        Value::String(text) => {
            let string = text.as_ptr().cast::<c_char>();
            (ffi::NAMED_STRING, NamedPayload { string }, text.len())
        }
        Value::Int64(int64) => (ffi::NAMED_INT64, NamedPayload { int64: *int64 }, 1),
        Value::Int64List(list) => {
            (ffi::NAMED_INT64_LIST, NamedPayload { int64_list: list.as_ptr() }, list.len())
        }
        Value::Float(float) => (ffi::NAMED_FLOAT, NamedPayload { float: *float }, 1),
        Value::Bool(boolean) => (ffi::NAMED_BOOL, NamedPayload { boolean: *boolean }, 1),
    };
    NamedValue {
        name: name.as_ptr().cast(),
        name_size: name.len(),
        value_type,
        payload,
        value_size,
        ..NamedValue::new()
    }
}

/// Copies a list of named values; those of an unknown type are left out.
///
/// # Safety
/// `values` is null or points to `len` named values as the plugin made them.
pub(crate) unsafe fn from_raw_list(values: *const NamedValue, len: usize) -> Attributes {
    // SAFETY: the caller's promise.
    let values = unsafe { copy_slice(values, len) };
    // SAFETY: each was made by the plugin.
    values.iter().filter_map(|value| unsafe { from_raw(value) }).collect()
}

/// # Safety
/// `raw` is a named value as the plugin made it.
unsafe fn from_raw(raw: &NamedValue) -> Option<(String, Value)> {
    // SAFETY: `value_type` says which member of the union was written, and
    // pointers come with their length.
    let value = unsafe {
        match raw.value_type {
            ffi::NAMED_STRING => Value::String(copy_string(raw.payload.string, raw.value_size)),
            ffi::NAMED_INT64 => Value::Int64(raw.payload.int64),
            ffi::NAMED_INT64_LIST => {
                Value::Int64List(copy_slice(raw.payload.int64_list, raw.value_size))
            }
            ffi::NAMED_FLOAT => Value::Float(raw.payload.float),
            ffi::NAMED_BOOL => Value::Bool(raw.payload.boolean),
            _ => return None,
        }
    };
    // SAFETY: the name comes with its length.
    Some((unsafe { copy_string(raw.name, raw.name_size) }, value))
}
