//! The settings of CSV files fit together.

use std::collections::BTreeSet;

use crate::problems::{Problems, join};
use crate::schema::JobFile;

/// The delimiter that is found in the file.
const AUTO: &str = "auto";

pub(crate) fn check(job: &JobFile, problems: &mut Problems) {
    let data = &job.data;
    let characters = [
        ("delimiter", data.delimiter.as_ref().filter(|text| *text != AUTO)),
        ("quotechar", Some(&data.quotechar)),
        ("escapechar", data.escapechar.as_ref()),
        ("comment", data.comment.as_ref()),
        ("decimal", Some(&data.decimal)),
        ("thousands", data.thousands.as_ref()),
    ];
    let mut given = Vec::new();
    for (key, text) in characters.into_iter().filter_map(|(key, text)| Some((key, text?))) {
        match text.as_bytes() {
            [byte] if byte.is_ascii() && !b"\r\n".contains(byte) => given.push((key, *byte)),
            _ => {
                let description = "must be one ASCII character that is not a line break";
                problems.violation(&join("data", key), description);
            }
        }
    }
    check_different(&given, &["delimiter", "quotechar", "escapechar", "comment"], problems);
    check_different(&given, &["decimal", "thousands"], problems);
    let mut names = BTreeSet::new();
    if let Some(name) = data.names.iter().find(|name| !names.insert(*name)) {
        problems.violation("data.names", format!("has {name:?} twice"));
    }
}

/// Characters with different meanings in one place are different.
fn check_different(given: &[(&str, u8)], keys: &[&str], problems: &mut Problems) {
    let mut before: Vec<(&str, u8)> = Vec::new();
    for &(key, byte) in given.iter().filter(|(key, _)| keys.contains(key)) {
        if let Some((other, _)) = before.iter().find(|(_, same)| *same == byte) {
            let description = format!("is the character of data.{other}, too");
            problems.violation(&join("data", key), description);
        }
        before.push((key, byte));
    }
}
