//! Values as command lines and Python spell them.

use serde_json::{Number, Value};

/// A word of a command line as a value: `True`, `3`, `5e-5`, else text.
pub(crate) fn parse(word: &str) -> Value {
    match word {
        "True" | "true" => return Value::Bool(true),
        "False" | "false" => return Value::Bool(false),
        "None" | "null" => return Value::Null,
        _ => {}
    }
    // Python reads `10_000` as a number.
    let digits = word.trim_start_matches('-').split('_');
    let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    if word.contains('_') && digits.clone().all(is_digits) {
        return parse(&word.replace('_', ""));
    }
    if let Ok(number) = word.parse::<i64>() {
        return number.into();
    }
    // `nan` and `inf` are names as likely as numbers.
    let is_number = word.starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c));
    let number = word.parse::<f64>().ok().filter(|_| is_number).and_then(Number::from_f64);
    number.map_or_else(|| Value::String(word.to_owned()), Value::Number)
}

/// A value that a program may have as text.
pub(crate) fn plain(value: &Value) -> Value {
    value.as_str().map_or_else(|| value.clone(), parse)
}

/// Whether a value switches off what its key is about.
pub(crate) fn is_off(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => {
            let off = ["", "none", "no", "false", "off"];
            off.iter().any(|word| text.eq_ignore_ascii_case(word))
        }
        Value::Array(values) => values.is_empty(),
        Value::Object(values) => values.is_empty(),
        Value::Bool(true) => false,
    }
}

/// Whether a value is a truth value, as a program may have it.
pub(crate) fn is_flag(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) => true,
        Value::Number(number) => matches!(number.as_f64(), Some(0.0 | 1.0)),
        Value::String(text) => {
            let words = ["true", "yes", "on", "1", "t", "y"];
            is_off(value) || words.iter().any(|word| text.eq_ignore_ascii_case(word))
        }
        Value::Array(_) | Value::Object(_) => false,
    }
}

/// A scalar as a message shows it.
pub(crate) fn shown(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
