//! `data.columns`: changes to the columns of the files.

use crate::section::section;
use crate::spelled::spelled;
use crate::values::Mapping;

section! {
    /// Changes to the columns of all files before they are read, made in this order.
    pub struct Columns {
        /// New names: `{sentence: text}`.
        rename: Mapping<String> = Mapping::default();
        /// Columns to leave out, by their new names.
        drop: Vec<String> = Vec::new();
        /// Types that values are converted to, by the new names: `{label: int64}`.
        cast: Mapping<CastType> = Mapping::default();
    }
}

spelled! {
    /// The type that a value is converted to, named as in `datasets`.
    pub enum CastType {
        /// A text.
        String = "string",
        /// A whole number.
        Int64 = "int64",
        /// A number.
        Float64 = "float64",
        /// True or false.
        Bool = "bool",
    }
}
