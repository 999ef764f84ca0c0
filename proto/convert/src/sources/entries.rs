//! Entries of `data.train` and `data.validation`. Settings that all entries share become keys of the
//! section `data`; the others stay with their entries.

use serde_json::{Map, Value};

use crate::draft::Draft;

/// Settings of an entry that are also keys of the section, with the key's path.
const SHARED: [(&str, &str); 6] = [
    ("format", "data.format"),
    ("messages", "data.messages"),
    ("fields", "data.fields"),
    ("roles", "data.roles"),
    ("message_property_mappings", "data.message_property_mappings"),
    ("dataset_config_name", "data.dataset_config_name"),
];

/// A set of rows.
pub(super) struct Entry {
    pub(super) paths: Vec<String>,
    pub(super) settings: Map<String, Value>,
}

/// The sets of a split: the field that names them, the source's key, and the sets.
pub(super) struct Split {
    pub(super) path: &'static str,
    pub(super) key: &'static str,
    pub(super) entries: Vec<Entry>,
    /// True where the caller gives the files, whose rows have the layout of the source's.
    pub(super) is_given: bool,
}

/// Sets the fields of all splits.
pub(super) fn write(mut splits: Vec<Split>, draft: &mut Draft) {
    for (name, path) in SHARED {
        share(name, path, &mut splits, draft);
    }
    let has_files = |split: &Split| !split.is_given && !split.entries.is_empty();
    for Split { path, key, entries, .. } in splits.into_iter().filter(has_files) {
        draft.set(path, value(entries), key);
    }
}

/// Moves a setting of all entries to the section. The layout of the first entry is that of the section
/// in any case, since entries without one need it.
fn share(name: &str, path: &str, splits: &mut [Split], draft: &mut Draft) {
    let entries = || splits.iter().flat_map(|split| &split.entries);
    let Some(first) = entries().next().and_then(|entry| entry.settings.get(name)).cloned() else {
        return;
    };
    let has_first = |entry: &Entry| entry.settings.get(name) == Some(&first);
    if name != "format" && !entries().all(has_first) {
        return;
    }
    draft.set(path, first.clone(), splits.first().map_or("", |split| split.key));
    for entry in splits.iter_mut().flat_map(|split| &mut split.entries) {
        if entry.settings.get(name) == Some(&first) {
            entry.settings.remove(name);
        }
    }
}

/// Entries as the job file has them: paths alone where they have no settings.
fn value(entries: Vec<Entry>) -> Value {
    let are_plain = entries.iter().all(|entry| entry.settings.is_empty());
    let mut values: Vec<Value> = Vec::new();
    for Entry { mut paths, settings } in entries {
        if are_plain {
            values.extend(paths.into_iter().map(Value::from));
            continue;
        }
        let path = if paths.len() == 1 { paths.remove(0).into() } else { Value::from(paths) };
        let mut entry = Map::from_iter([("path".to_owned(), path)]);
        entry.extend(settings);
        values.push(Value::Object(entry));
    }
    if are_plain && values.len() == 1 { values.remove(0) } else { Value::Array(values) }
}
