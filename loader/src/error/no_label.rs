//! Labels by which data sets say that a row has none.

/// Texts in the place of a label: the dash of SNLI, and missing values as tables and Python write them.
const NO_LABEL: [&str; 13] =
    ["-", "--", "?", "n/a", "N/A", "NA", "nan", "NaN", "None", "null", "NULL", "<NA>", "#N/A"];
/// The label of `datasets` for rows without one.
pub(crate) const NO_CLASS: i64 = -1;

/// Whether data sets may have a label where a row has none.
pub(crate) fn may_be_no_label(label: &str) -> bool {
    NO_LABEL.contains(&label) || label == NO_CLASS.to_string()
}

/// The way out, behind the problem of a label that may be none; nothing for others.
pub(crate) fn remedy_of(label: &str) -> String {
    match may_be_no_label(label) {
        true => format!("; data.ignored_labels: [{label:?}] leaves its rows out"),
        false => String::new(),
    }
}
