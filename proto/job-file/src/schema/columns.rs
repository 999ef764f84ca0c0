//! `data.columns`: what is done with the columns of the files.

use crate::section::section;
use crate::spelled::spelled;
use crate::values::Mapping;

section! {
    /// What is done with the columns of all files before they are read, in this order.
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
    /// What a value is converted to, as `datasets` calls it.
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
