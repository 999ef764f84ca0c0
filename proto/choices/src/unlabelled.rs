//! Labels by which data sets say that a row has none.

use std::collections::BTreeSet;

/// Texts in the place of a label: the dash of SNLI, and missing values as tables and Python write them.
const NO_LABEL: [&str; 13] =
    ["-", "--", "?", "n/a", "N/A", "NA", "nan", "NaN", "None", "null", "NULL", "<NA>", "#N/A"];
/// The label of `datasets` for rows without one.
const NO_CLASS: i64 = -1;

/// Returns true if data sets may have a label where a row has none.
pub fn may_be_no_label(label: &str) -> bool {
    NO_LABEL.contains(&label) || label == NO_CLASS.to_string()
}

/// Returns the places of those of a column's distinct labels whose rows may have none: a dash or a missing value in
/// words, or -1 beside several numbers from 0 on, some of which the rows may lack.
pub fn doubtful_labels(labels: &[String]) -> impl Iterator<Item = usize> {
    let numbers: Option<BTreeSet<i64>> = labels.iter().map(|label| label.parse().ok()).collect();
    // Two numbers may be two classes, and -2 and -1 the lower ones of a scale.
    let has_no_class =
        numbers.is_some_and(|numbers| numbers.len() > 2 && numbers.first() == Some(&NO_CLASS));
    let is_doubtful = move |label: &str| {
        may_be_no_label(label) && (has_no_class || label != NO_CLASS.to_string())
    };
    labels.iter().enumerate().filter(move |(_, label)| is_doubtful(label)).map(|(place, _)| place)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_doubtful_beside_several_classes() {
        let check = |labels: &[&str], expect: &[usize]| {
            let labels: Vec<String> = labels.iter().map(|&label| label.to_owned()).collect();
            assert_eq!(doubtful_labels(&labels).collect::<Vec<_>>(), expect, "{labels:?}");
        };
        check(&["-", "neutral", "nan"], &[0, 2]);
        check(&["-1", "0", "1"], &[0]);
        check(&["-1", "1"], &[]);
        check(&["-1", "0", "2"], &[0]);
        check(&["-1", "1", "10", "4"], &[0]);
        check(&["-1", "0"], &[]);
        check(&["-2", "-1", "0"], &[]);
        check(&["-1", "0", "many"], &[]);
    }
}
