//! `tojson` as transformers defines it: `json.dumps` of Python, characters beyond ASCII as they are.

use minijinja::value::{Kwargs, Value, ValueKind};
use minijinja::{Error, ErrorKind, State};

/// The deepest value that is written.
const DEPTH_MAX: usize = 64;

/// Bytes that a unit of the budget pays for.
const BYTES_PER_FUEL: usize = 64;

/// The filter. `ensure_ascii`, `indent`, `separators` and `sort_keys` are those of `json.dumps`. The
/// budget pays for each value and for the text.
pub(super) fn filter(state: &State<'_, '_>, value: &Value, given: Kwargs) -> Result<String, Error> {
    let style = Style::of(state, &given)?;
    given.assert_all_used()?;
    let mut text = String::new();
    style.write(value, 0, &mut text)?;
    Ok(text)
}

/// How values are written.
struct Style<'a> {
    state: &'a State<'a, 'a>,
    ensure_ascii: bool,
    /// The indentation of a line, once for each level.
    indent: Option<String>,
    item_separator: String,
    key_separator: String,
    sort_keys: bool,
}

impl<'a> Style<'a> {
    fn of(state: &'a State<'a, 'a>, given: &Kwargs) -> Result<Self, Error> {
        let indent = match given.get::<Option<Value>>("indent")? {
            None => None,
            Some(value) if value.is_none() => None,
            Some(value) => Some(match value.as_str() {
                Some(text) => text.to_owned(),
                None => " ".repeat(usize::try_from(value)?.min(64)),
            }),
        };
        let separators: Option<Value> = given.get("separators")?;
        let (item_separator, key_separator) = match separators.filter(|given| !given.is_none()) {
            Some(pair) => {
                (pair.get_item_by_index(0)?.to_string(), pair.get_item_by_index(1)?.to_string())
            }
            None => (if indent.is_some() { "," } else { ", " }.to_owned(), ": ".to_owned()),
        };
        Ok(Self {
            state,
            ensure_ascii: given.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
            sort_keys: given.get::<Option<bool>>("sort_keys")?.unwrap_or(false),
            indent,
            item_separator,
            key_separator,
        })
    }

    fn write(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        if depth > DEPTH_MAX {
            return Err(Error::new(ErrorKind::InvalidOperation, "tojson: too deeply nested"));
        }
        self.pay_for(value, depth)?;
        match value.kind() {
            ValueKind::None => text.push_str("null"),
            ValueKind::Bool => text.push_str(if value.is_true() { "true" } else { "false" }),
            ValueKind::Number => text.push_str(&number(value)),
            ValueKind::String => self.write_string(value.as_str().unwrap_or_default(), text),
            ValueKind::Seq | ValueKind::Iterable => {
                let items = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
                self.write_items(['[', ']'], &items, depth, text, |item, text| {
                    self.write(item, depth + 1, text)
                })?;
            }
            ValueKind::Map => self.write_map(value, depth, text)?,
            kind => {
                let problem = format!("tojson: {kind} is not JSON serializable");
                return Err(Error::new(ErrorKind::InvalidOperation, problem));
            }
        }
        Ok(())
    }

    /// Pays for a value, its own text, and what surrounds it.
    fn pay_for(&self, value: &Value, depth: usize) -> Result<(), Error> {
        let indent = self.indent.as_ref().map_or(0, |indent| indent.len() * (depth + 1));
        let separators = self.item_separator.len() + self.key_separator.len();
        let bytes = value.as_str().map_or(0, str::len) + separators + indent;
        self.state.consume_fuel(1 + (bytes / BYTES_PER_FUEL) as u64)
    }

    fn write_map(&self, value: &Value, depth: usize, text: &mut String) -> Result<(), Error> {
        let mut keys = value.try_iter()?.checked().collect::<Result<Vec<_>, _>>()?;
        if self.sort_keys {
            keys.sort();
        }
        self.write_items(['{', '}'], &keys, depth, text, |key, text| {
            match key.as_str() {
                Some(name) => self.write_string(name, text),
                None => {
                    let mut name = String::new();
                    self.write(key, depth + 1, &mut name)?;
                    self.write_string(&name, text);
                }
            }
            text.push_str(&self.key_separator);
            self.write(&value.get_item(key)?, depth + 1, text)
        })
    }

    fn write_items(
        &self,
        [open, close]: [char; 2],
        items: &[Value],
        depth: usize,
        text: &mut String,
        mut write: impl FnMut(&Value, &mut String) -> Result<(), Error>,
    ) -> Result<(), Error> {
        text.push(open);
        for (place, item) in items.iter().enumerate() {
            if place > 0 {
                text.push_str(&self.item_separator);
            }
            self.begin_line(depth + 1, text);
            write(item, text)?;
        }
        if !items.is_empty() {
            self.begin_line(depth, text);
        }
        text.push(close);
        Ok(())
    }

    fn begin_line(&self, depth: usize, text: &mut String) {
        if let Some(indent) = &self.indent {
            text.push('\n');
            text.push_str(&indent.repeat(depth));
        }
    }

    fn write_string(&self, string: &str, text: &mut String) {
        text.push('"');
        for letter in string.chars() {
            match letter {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                '\u{8}' => text.push_str("\\b"),
                '\u{c}' => text.push_str("\\f"),
                _ if letter < ' ' || (self.ensure_ascii && !(' '..='~').contains(&letter)) => {
                    let mut units = [0; 2];
                    let units = letter.encode_utf16(&mut units);
                    units.iter().for_each(|unit| text.push_str(&format!("\\u{unit:04x}")));
                }
                _ => text.push(letter),
            }
        }
        text.push('"');
    }
}

/// A number as Python writes it.
pub(super) fn number(value: &Value) -> String {
    if value.is_integer() {
        return value.to_string();
    }
    let Ok(number) = f64::try_from(value.clone()) else { return value.to_string() };
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "Infinity" } else { "-Infinity" }.to_owned();
    }
    let magnitude = number.abs();
    if number != 0.0 && !(1e-4..1e16).contains(&magnitude) {
        let text = format!("{number:e}");
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let (sign, exponent) = match exponent.strip_prefix('-') {
            Some(exponent) => ('-', exponent),
            None => ('+', exponent),
        };
        return format!("{digits}e{sign}{exponent:0>2}");
    }
    format!("{number:?}")
}
