//! Rows as the tasks see them: plain values, whatever the file's format.

use crate::error::Result;

/// One cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// No value.
    Null,
    /// A truth value.
    Bool(bool),
    /// A whole number.
    Int(i64),
    /// A number.
    Float(f64),
    /// A text.
    Text(String),
    /// Bytes, such as an encoded image.
    Bytes(Vec<u8>),
    /// Values in their order.
    List(Vec<Value>),
    /// Values by name, in their order.
    Struct(Vec<(String, Value)>),
}

impl Value {
    /// The approximate memory that its content takes.
    fn bytes(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Int(_) | Self::Float(_) => size_of::<Self>(),
            Self::Text(text) => size_of::<Self>() + text.len(),
            Self::Bytes(bytes) => size_of::<Self>() + bytes.len(),
            Self::List(items) => items.iter().map(Self::bytes).sum(),
            Self::Struct(fields) => {
                fields.iter().map(|(name, value)| name.len() + value.bytes()).sum()
            }
        }
    }

    /// The truth value that the cell is, or stands for in a format without types: 0 or 1, or a text that pandas
    /// reads as a boolean.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Self::Bool(flag) => Some(*flag),
            Self::Int(number @ 0..=1) => Some(*number == 1),
            Self::Float(number) if *number == 0.0 || *number == 1.0 => Some(*number == 1.0),
            Self::Text(text) => {
                let number = || text.trim().parse().ok().map(Self::Float);
                truth_of_text(text).or_else(|| number()?.truth())
            }
            _ => None,
        }
    }

    /// The type of the value, as errors name it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a boolean",
            Self::Int(_) => "an integer",
            Self::Float(_) => "a float",
            Self::Text(_) => "text",
            Self::Bytes(_) => "bytes",
            Self::List(_) => "a list",
            Self::Struct(_) => "a struct",
        }
    }
}

/// The truth value that a text is by the rules of pandas' `read_csv`, with or without space around it.
pub(crate) fn truth_of_text(text: &str) -> Option<bool> {
    match text.trim() {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

/// Rows passed on at a time: enough to keep every thread of the pool busy, in little memory.
pub(super) const RECORDS_MAX: usize = 8192;

/// The same limit in bytes, for long rows.
pub(super) const RECORDS_BYTES_MAX: usize = 4 << 20;

/// Takes rows, a bounded number at a time.
pub(super) type Sink<'sink> = &'sink mut dyn FnMut(Records) -> Result<()>;

/// Consecutive rows of one file.
#[derive(Clone, Debug, Default)]
pub struct Records {
    first_row: u64,
    names: Vec<String>,
    /// The start of each row, for text formats; else empty. See [`super::formats::DataFile::line`].
    marks: Vec<u64>,
    /// One a name; all of one length.
    columns: Vec<Vec<Value>>,
    /// The size of the rows that were pushed.
    bytes: usize,
}

impl Records {
    /// No rows yet; the first one to come is row `first_row` of its file.
    pub(super) fn new(first_row: u64, names: &[&str]) -> Self {
        Self::of_columns(first_row, names, vec![Vec::new(); names.len()])
    }

    /// Whole columns of a format without lines.
    pub(super) fn of_columns(first_row: u64, names: &[&str], columns: Vec<Vec<Value>>) -> Self {
        let names = names.iter().map(|name| (*name).to_owned()).collect();
        Self { first_row, names, marks: Vec::new(), columns, bytes: 0 }
    }

    /// The same rows with the names `names`, each value as `convert(name, record, value)` makes it.
    pub(super) fn converted<E>(
        &self,
        names: &[&str],
        convert: impl Fn(&str, usize, &Value) -> Result<Value, E>,
    ) -> Result<Self, E> {
        let convert = &convert;
        let pairs = names.iter().zip(&self.columns);
        let columns = pairs.map(|(name, column)| {
            column.iter().enumerate().map(|(record, value)| convert(name, record, value)).collect()
        });
        let columns = columns.collect::<Result<Vec<_>, E>>()?;
        Ok(Self { marks: self.marks.clone(), ..Self::of_columns(self.first_row, names, columns) })
    }

    /// The same rows with the columns `names`, one after the other; a column without a name has a
    /// missing value in each row.
    pub(super) fn arranged(&self, names: &[Option<&str>]) -> Self {
        let column = |name: &Option<&str>| match name {
            Some(name) => self.columns[self.place(name)].clone(),
            None => vec![Value::Null; self.len()],
        };
        let columns = names.iter().map(column).collect();
        let names: Vec<&str> = names.iter().map(|name| name.unwrap_or_default()).collect();
        Self { marks: self.marks.clone(), ..Self::of_columns(self.first_row, &names, columns) }
    }

    /// The same rows with the columns `names`, of which those that `parts_of` knows are lists of others' values, each
    /// as `element` makes it of a part's.
    pub(super) fn with_lists<'parts>(
        &self,
        names: &[&str],
        parts_of: impl Fn(&str) -> Option<&'parts [String]>,
        element: impl Fn(&str, &Value) -> Value,
    ) -> Self {
        let list = |parts: &[String], record: usize| {
            let cells = parts.iter().map(|part| element(part, self.cell(part, record)));
            Value::List(cells.collect())
        };
        let column = |name: &&str| match parts_of(name) {
            Some(parts) => (0..self.len()).map(|record| list(parts, record)).collect(),
            None => self.columns[self.place(name)].clone(),
        };
        let columns = names.iter().map(column).collect();
        Self { marks: self.marks.clone(), ..Self::of_columns(self.first_row, names, columns) }
    }

    /// One of the rows.
    pub(super) fn one(&self, record: usize) -> Self {
        Self {
            first_row: self.row(record),
            names: self.names.clone(),
            marks: self.mark(record).into_iter().collect(),
            columns: self.columns.iter().map(|column| vec![column[record].clone()]).collect(),
            bytes: 0,
        }
    }

    /// Appends a row of a text format, which starts at `mark`. Passes the rows on to `sink` once
    /// there are enough of them.
    pub(super) fn push(
        &mut self,
        mark: u64,
        values: impl IntoIterator<Item = Value>,
        sink: Sink<'_>,
    ) -> Result<()> {
        self.marks.push(mark);
        for (column, value) in self.columns.iter_mut().zip(values) {
            self.bytes += value.bytes();
            column.push(value);
        }
        if self.is_full() { sink(self.take()) } else { Ok(()) }
    }

    fn is_full(&self) -> bool {
        self.len() >= RECORDS_MAX || self.bytes >= RECORDS_BYTES_MAX
    }

    /// Takes the rows out; later ones continue their numbers.
    fn take(&mut self) -> Self {
        let names: Vec<&str> = self.names.iter().map(String::as_str).collect();
        let next = Self::new(self.first_row + self.len() as u64, &names);
        std::mem::replace(self, next)
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.columns.first().map_or(self.marks.len(), Vec::len)
    }

    /// Returns true if there is no row.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The value of a row in a column that was asked for. A column that was not is a bug of the
    /// caller and panics.
    pub fn cell(&self, column: &str, record: usize) -> &Value {
        &self.columns[self.place(column)][record]
    }

    /// The approximate number of bytes of a row.
    pub(crate) fn bytes_of(&self, record: usize) -> usize {
        self.columns.iter().map(|column| column[record].bytes()).sum()
    }

    fn place(&self, column: &str) -> usize {
        let place = self.names.iter().position(|name| name == column);
        place.expect("a column that was asked for")
    }

    /// Returns true if the column was asked for.
    pub(crate) fn has(&self, column: &str) -> bool {
        self.names.iter().any(|name| name == column)
    }

    /// The row's number in its file, from 0.
    pub fn row(&self, record: usize) -> u64 {
        self.first_row + record as u64
    }

    /// The start of the row, in its format's own terms.
    pub(super) fn mark(&self, record: usize) -> Option<u64> {
        self.marks.get(record).copied()
    }
}
