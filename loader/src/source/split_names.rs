//! The words by which `datasets` finds splits in the names of files and folders.

/// The splits, each with its words.
const SPLITS: [(&str, &[&str]); 3] = [
    ("train", &["train", "training"]),
    ("validation", &["validation", "valid", "dev", "val"]),
    ("test", &["test", "testing", "eval", "evaluation"]),
];

/// The names of all splits.
pub fn split_names() -> impl Iterator<Item = &'static str> {
    SPLITS.iter().map(|(split, _)| *split)
}

/// Returns true for a word that stands for any split.
pub(super) fn is_split(word: &str) -> bool {
    SPLITS.iter().any(|(_, words)| words.contains(&word))
}

/// Returns true if the name of a file or of a folder has a word for `split`. Words are separated by `-`, `.`, `_`,
/// spaces and digits.
pub fn names_split(name: &str, split: &str) -> bool {
    let is_separator = |c: char| matches!(c, '-' | '.' | '_' | ' ') || c.is_ascii_digit();
    let words =
        SPLITS.iter().find(|(known, _)| *known == split).map_or(&[][..], |(_, words)| words);
    name.split(is_separator).any(|word| words.contains(&word))
}
