//! Classes that may be no classes: values by which data sets say that a row has no label.

use traind_choices::doubtful_labels;

use super::encoder::LabelEncoder;

impl LabelEncoder {
    /// The classes, by id, whose rows may have no label: a dash or a missing value in words, or -1 beside
    /// several numbers from 0 on. None where a map, a model or the files name the classes.
    pub fn doubtful_classes(&self) -> impl Iterator<Item = (usize, &str)> {
        let names = if self.is_of_data() { self.id2label() } else { &[] };
        doubtful_labels(names).map(|id| (id, names[id].as_str()))
    }
}

/// Warnings about the classes of a rule that may be none, each with the number of its rows.
pub(crate) fn about_doubtful(
    encoder: Option<&LabelEncoder>,
    rows_of: impl Fn(usize) -> u64,
) -> Vec<String> {
    let classes = encoder.into_iter().flat_map(LabelEncoder::doubtful_classes);
    let counted = classes.map(|(id, name)| (rows_of(id), name));
    counted.filter(|(rows, _)| *rows > 0).map(|(rows, name)| about(name, rows)).collect()
}

/// The warning about so many rows of a class that may be none.
fn about(name: &str, rows: u64) -> String {
    let have = traind_wording::counted_as(rows, "row has", "rows have");
    format!(
        "{have} the label {name:?}, by which data sets mark rows without a label, and which is a class here: \
         data.ignored_labels: [{name:?}] leaves these rows out, and a data.label_map with this label keeps them"
    )
}
