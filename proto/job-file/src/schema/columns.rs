//! `data.columns`: changes to the columns of the files.

use crate::section::section;
use crate::spelled::spelled;
use crate::values::Mapping;

section! {
    /// Changes to the columns of all files before they are read, applied in this order.
    pub struct Columns {
        /// New column names: `{sentence: text}`.
        rename: Mapping<String> = Mapping::default();
        /// Columns to drop, by their new names.
        drop: Vec<String> = Vec::new();
        /// Columns of lists, each of the values of other columns, by their new names, such as one for each label:
        /// `{labels: [toxic, insult, threat]}`.
        lists: Mapping<Vec<String>> = Mapping::default();
        /// Types to convert values to, by new column name: `{label: int64}`. Columns that lists are made of
        /// are converted first, then the items of lists.
        cast: Mapping<CastType> = Mapping::default();
    }
}

spelled! {
    /// The type to convert a value to, named as in `datasets`.
    pub enum CastType {
        /// Text.
        String = "string",
        /// An integer.
        Int64 = "int64",
        /// A floating-point number.
        Float64 = "float64",
        /// True or false.
        Bool = "bool",
    }
}
