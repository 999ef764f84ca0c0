//! The settings of CSV files.

use traind_job_file::{Data, Quoting};
use traind_loader::{CsvOptions, Delimiter};

use crate::recipe::rows;

pub(super) fn options(data: &Data) -> CsvOptions {
    // Each is one byte: the job file was checked.
    let byte = |text: &String| text.bytes().next();
    let delimiter = |text: &String| match text.as_str() {
        "auto" => Some(Delimiter::Auto),
        _ => byte(text).map(Delimiter::Byte),
    };
    let usual_header = data.names.is_empty().then_some(0);
    CsvOptions {
        delimiter: data.delimiter.as_ref().and_then(delimiter),
        quotechar: byte(&data.quotechar).filter(|_| data.quoting != Quoting::None),
        escapechar: data.escapechar.as_ref().and_then(byte),
        doublequote: data.doublequote,
        comment: data.comment.as_ref().and_then(byte),
        on_bad_lines: rows::on_bad_lines(data.on_bad_lines),
        skiprows: data.skiprows.into(),
        header: data.header.map(u64::from).or(usual_header),
        names: data.names.clone(),
        na_values: data.na_values.clone(),
        decimal: byte(&data.decimal).unwrap_or(b'.'),
        thousands: data.thousands.as_ref().and_then(byte),
    }
}
