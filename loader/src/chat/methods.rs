//! Methods of Python's strings, lists and dictionaries. Those whose result may be much larger than
//! what they are given pay for it before it is made.

use minijinja::value::{Tuple, ValueKind};
use minijinja::{Error, ErrorKind, State, Value};
use minijinja_contrib::pycompat::unknown_method_callback;

/// Bytes that a unit of the budget pays for.
const BYTES_PER_FUEL: usize = 64;
/// The bytes of an item of a list.
const ITEM_BYTES: usize = 32;
/// The widest field of `str.format`.
const WIDTH_DIGITS_MAX: usize = 4;

/// Calls a method that Jinja's values lack.
pub(super) fn call(
    state: &mut State<'_, '_>,
    value: &Value,
    method: &str,
    args: &[Value],
) -> Result<Value, Error> {
    if let Some(text) = value.as_str() {
        let bytes = result_bytes(text, method, args)?;
        state.consume_fuel((bytes / BYTES_PER_FUEL) as u64)?;
        if let Some(result) = affixed(text, method, args).or_else(|| parts(text, method, args)) {
            return Ok(result);
        }
    }
    if method == "copy"
        && args.is_empty()
        && matches!(value.kind(), ValueKind::Seq | ValueKind::Map)
    {
        return Ok(value.clone());
    }
    unknown_method_callback(state, value, method, args)
}

/// `removeprefix` and `removesuffix`.
fn affixed(text: &str, method: &str, args: &[Value]) -> Option<Value> {
    let affix = args.first()?.as_str()?;
    let rest = match method {
        "removeprefix" => text.strip_prefix(affix),
        "removesuffix" => text.strip_suffix(affix),
        _ => return None,
    };
    Some(Value::from(rest.unwrap_or(text)))
}

/// `partition`, `rpartition` and `rsplit` with a separator.
fn parts(text: &str, method: &str, args: &[Value]) -> Option<Value> {
    let separator = args.first()?.as_str().filter(|separator| !separator.is_empty())?;
    let tuple = |parts: [&str; 3]| Value::from(Tuple::new(parts.map(Value::from).to_vec()));
    Some(match method {
        "partition" => match text.split_once(separator) {
            Some((before, behind)) => tuple([before, separator, behind]),
            None => tuple([text, "", ""]),
        },
        "rpartition" => match text.rsplit_once(separator) {
            Some((before, behind)) => tuple([before, separator, behind]),
            None => tuple(["", "", text]),
        },
        "rsplit" => {
            let times = args.get(1).and_then(|times| usize::try_from(times.clone()).ok());
            let mut parts: Vec<Value> = match times {
                Some(times) => {
                    text.rsplitn(times.saturating_add(1), separator).map(Value::from).collect()
                }
                None => text.rsplit(separator).map(Value::from).collect(),
            };
            parts.reverse();
            Value::from(parts)
        }
        _ => return None,
    })
}

/// The most bytes that the result of a method of `text` takes.
fn result_bytes(text: &str, method: &str, args: &[Value]) -> Result<usize, Error> {
    let argument = |place: usize| args.get(place).and_then(Value::as_str).unwrap_or_default();
    Ok(match method {
        "replace" => {
            let (found, replacement) = (text.matches(argument(0)).count(), argument(1).len());
            found.saturating_mul(replacement)
        }
        "join" => {
            let items = args.first().and_then(Value::len).unwrap_or_default();
            items.saturating_mul(text.len() + ITEM_BYTES)
        }
        "split" | "rsplit" | "splitlines" => text.len().saturating_mul(ITEM_BYTES),
        "format" if is_wide(text) => {
            return Err(Error::new(ErrorKind::InvalidOperation, "format: too wide a field"));
        }
        "format" => {
            let fields = text.matches('{').count();
            let longest = args.iter().filter_map(Value::as_str).map(str::len).max();
            fields.saturating_mul(longest.unwrap_or_default())
        }
        _ => 0,
    })
}

/// Returns true if a format has a number of many digits, which may be the width of a field.
fn is_wide(format: &str) -> bool {
    let mut numbers = format.split(|letter: char| !letter.is_ascii_digit());
    numbers.any(|digits| digits.len() > WIDTH_DIGITS_MAX)
}
