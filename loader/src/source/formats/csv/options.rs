//! How CSV is written, by the names of pandas' `read_csv`.

use serde::Serialize;

/// The settings of CSV files. The defaults are those of pandas.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CsvOptions {
    /// The delimiter between fields: by default a comma, and a tab in `.tsv` files.
    pub delimiter: Option<Delimiter>,
    /// Around fields that hold delimiters, quotes or line breaks. None where quotes are text
    /// (`QUOTE_NONE`).
    pub quotechar: Option<u8>,
    /// Takes its meaning from the character after it.
    pub escapechar: Option<u8>,
    /// Whether two quotes in a quoted field are one.
    pub doublequote: bool,
    /// Begins a comment that ends with the line.
    pub comment: Option<u8>,
    /// The treatment of lines with too many fields.
    pub on_bad_lines: OnBadLines,
    /// Lines to leave out at the start of the file.
    pub skiprows: u64,
    /// The row with the column names, not counting lines that are left out. None where `names` are
    /// given and no row has them.
    pub header: Option<u64>,
    /// The column names, in place of those in the file.
    pub names: Vec<String>,
    /// Fields that are missing values, besides empty ones.
    pub na_values: Vec<String>,
    /// The decimal point of numbers.
    pub decimal: u8,
    /// The separator between groups of three digits of numbers.
    pub thousands: Option<u8>,
}

/// The character between fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum Delimiter {
    /// This byte.
    Byte(u8),
    /// The one of comma, semicolon, tab and bar that the first lines use alike.
    Auto,
}

/// The treatment of lines that have more fields than those before (`on_bad_lines`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum OnBadLines {
    /// The file is refused.
    #[default]
    Error,
    /// They are left out, and a warning counts them.
    Warn,
    /// They are left out.
    Skip,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            quotechar: Some(b'"'),
            escapechar: None,
            doublequote: true,
            comment: None,
            on_bad_lines: OnBadLines::Error,
            skiprows: 0,
            header: Some(0),
            names: Vec::new(),
            na_values: Vec::new(),
            decimal: b'.',
            thousands: None,
        }
    }
}

impl CsvOptions {
    /// The number in the usual notation that `text` is in the file's; None where the notations agree or it
    /// is no number.
    pub(super) fn number(&self, text: &str) -> Option<String> {
        if self.decimal == b'.' && self.thousands.is_none() {
            return None;
        }
        let usual: String = text
            .trim()
            .bytes()
            .filter(|byte| Some(*byte) != self.thousands)
            .map(|byte| if byte == self.decimal { '.' } else { char::from(byte) })
            .collect();
        let is_number =
            usual.bytes().next_back().is_some_and(|byte| byte.is_ascii_digit() || byte == b'.')
                && usual.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
                && usual.parse::<f64>().is_ok();
        is_number.then_some(usual)
    }
}
