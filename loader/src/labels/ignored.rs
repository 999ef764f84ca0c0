//! Labels that a job leaves out, such as the dash that SNLI has where annotators do not agree.

use super::raw::RawLabel;
use crate::source::Value;

/// Labels as they stand in files, or the names that files have for them.
#[derive(Debug)]
pub(super) struct IgnoredLabels {
    labels: Vec<RawLabel>,
    /// Whether the empty text is among them, which stands for labels that are missing.
    has_missing: bool,
}

impl IgnoredLabels {
    pub(super) fn of(texts: &[String]) -> Self {
        let labels = texts.iter().map(|text| RawLabel::of_text(text)).collect();
        Self { labels, has_missing: texts.iter().any(String::is_empty) }
    }

    /// Whether a label is one of them; `names` are those of the classes of its file. A list is none.
    pub(super) fn has(&self, value: &Value, names: Option<&[String]>) -> bool {
        if self.labels.is_empty() {
            return false;
        }
        let raw = match RawLabel::read(value) {
            Ok(raw) => raw,
            Err(problem) => return self.has_missing && problem.is_missing(),
        };
        let number = raw.integer();
        let name = number.and_then(|number| names?.get(usize::try_from(number).ok()?));
        let is_equal = |label: &RawLabel| {
            *label == raw
                || number.is_some_and(|number| label.integer() == Some(number))
                || name.is_some_and(|name| *name == label.to_string())
        };
        self.labels.iter().any(is_equal)
    }
}
