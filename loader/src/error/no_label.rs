//! The way out of labels by which data sets say that a row has none.

use traind_choices::may_be_no_label;

/// The way out, behind the problem of a label that may be none; nothing for others.
pub(crate) fn remedy_of(label: &str) -> String {
    match may_be_no_label(label) {
        true => format!("; data.ignored_labels: [{label:?}] leaves its rows out"),
        false => String::new(),
    }
}
