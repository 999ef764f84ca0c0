//! Filters, tests and the output of values as Python has them, where minijinja differs.

use std::fmt::Write;

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, State, filters};

use super::json::number;

/// The deepest value that is written.
const DEPTH_MAX: usize = 64;

pub(super) fn add_to(environment: &mut Environment<'_>) {
    environment.set_formatter(format);
    environment.add_filter("string", text);
    environment.add_filter("int", int);
    environment.add_filter("float", float);
    environment.add_test("iterable", is_iterable);
    environment.add_test("sequence", is_sequence);
    environment.add_test("callable", |_: &Value| false);
}

fn format(out: &mut Output<'_>, state: &mut State<'_, '_>, value: &Value) -> Result<(), Error> {
    let written = match value.as_str() {
        Some(text) => out.write_str(text),
        None => out.write_str(&text(state, value)?),
    };
    written.map_err(Error::from)
}

/// Python's `str`, whose text and values the budget pays for.
fn text(state: &State<'_, '_>, value: &Value) -> Result<String, Error> {
    if let Some(text) = value.as_str() {
        return Ok(text.to_owned());
    }
    let mut text = String::new();
    write(state, value, 0, &mut text)?;
    Ok(text)
}

fn write(
    state: &State<'_, '_>,
    value: &Value,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    if depth > DEPTH_MAX {
        return Err(Error::new(ErrorKind::InvalidOperation, "too deeply nested to be written"));
    }
    state.consume_fuel(1)?;
    match value.kind() {
        ValueKind::String => write!(out, "{value:?}").map_err(Error::from),
        ValueKind::Number => {
            out.push_str(&of_number(value));
            Ok(())
        }
        ValueKind::Map => write_map(state, value, depth, out),
        ValueKind::Seq => write_sequence(state, value, depth, out),
        _ => write!(out, "{value}").map_err(Error::from),
    }
}

fn of_number(value: &Value) -> String {
    match number(value).as_str() {
        "NaN" => "nan".to_owned(),
        "Infinity" => "inf".to_owned(),
        "-Infinity" => "-inf".to_owned(),
        number => number.to_owned(),
    }
}

fn write_sequence(
    state: &State<'_, '_>,
    value: &Value,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    let [open, close] = if value.is_tuple() { ["(", ")"] } else { ["[", "]"] };
    out.push_str(open);
    let mut length = 0;
    for item in value.try_iter()?.checked() {
        out.push_str(if length == 0 { "" } else { ", " });
        write(state, &item?, depth + 1, out)?;
        length += 1;
    }
    if value.is_tuple() && length == 1 {
        out.push(',');
    }
    out.push_str(close);
    Ok(())
}

fn write_map(
    state: &State<'_, '_>,
    value: &Value,
    depth: usize,
    out: &mut String,
) -> Result<(), Error> {
    out.push('{');
    for (place, key) in value.try_iter()?.checked().enumerate() {
        let key = key?;
        out.push_str(if place == 0 { "" } else { ", " });
        write(state, &key, depth + 1, out)?;
        out.push_str(": ");
        write(state, &value.get_item(&key)?, depth + 1, out)?;
    }
    out.push('}');
    Ok(())
}

/// `int`, which is 0 where the value is not a number.
fn int(
    state: &State<'_, '_>,
    value: &Value,
    default: Option<Value>,
    base: Option<u32>,
    named: Kwargs,
) -> Result<Value, Error> {
    filters::int(state, value, default.or_else(|| zero(&named, Value::from(0))), base, named)
}

/// `float`, which is 0 where the value is not a number.
fn float(
    state: &State<'_, '_>,
    value: &Value,
    default: Option<Value>,
    named: Kwargs,
) -> Result<Value, Error> {
    filters::float(state, value, default.or_else(|| zero(&named, Value::from(0.0))), named)
}

/// The default of a conversion that names none.
fn zero(named: &Kwargs, zero: Value) -> Option<Value> {
    (!named.has("default")).then_some(zero)
}

fn is_iterable(value: &Value) -> bool {
    !value.is_none() && value.try_iter().is_ok()
}

/// Python's texts and dictionaries have a length and items.
fn is_sequence(value: &Value) -> bool {
    value.is_undefined()
        || matches!(value.kind(), ValueKind::Seq | ValueKind::String | ValueKind::Map)
}
