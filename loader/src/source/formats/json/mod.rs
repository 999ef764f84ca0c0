//! JSON: lines, and documents. A file's columns are the keys of all its rows, as in `datasets`; a row
//! without one of them has a missing value there.

mod column_names;
mod document;
mod lines;
mod python_numbers;

use std::path::Path;

use super::{DataFile, FormatOptions};
use crate::error::Result;
pub(super) use lines::open as open_lines;
pub use lines::value as value_of_json;

/// A `.json` file is either JSON Lines too, or one document: a list of rows, or one under `data`.
pub(super) fn open_either(path: &Path, options: &FormatOptions) -> Result<Box<dyn DataFile>> {
    document::open(path)?.map_or_else(|| open_lines(path, options), Ok)
}
