//! Values that replace those of the file, given by field path.

use std::collections::BTreeMap;

use crate::node::{DEPTH_MAX, Entry, Node, Value};

/// Sets each value at its path. Returns the field and the fault of each that
/// cannot be set.
pub(crate) fn apply(root: &mut Node, values: &BTreeMap<String, String>) -> Vec<(String, String)> {
    let mut faults = Vec::new();
    for (field, yaml) in values {
        if let Err(fault) = apply_one(root, field, yaml) {
            faults.push((abbreviated(field), fault));
        }
    }
    faults
}

fn apply_one(root: &mut Node, field: &str, yaml: &str) -> Result<(), String> {
    // Each part is a level of recursion, here and in everything that reads the tree.
    let parts = field.split('.').count();
    if parts > DEPTH_MAX {
        return Err(format!("has {parts} parts; the path of a field has at most {DEPTH_MAX}"));
    }
    let node = match yaml.starts_with('*') {
        // An alias in YAML, for which a value has no anchor; a glob here.
        true => Node { value: Value::Text(yaml.to_owned()), at: None },
        false => Node::parse(yaml).map_err(|violation| violation.description)?,
    };
    match set(root, field, without_positions(node)) {
        true => Ok(()),
        false => Err("is not the path of a field".to_owned()),
    }
}

/// The beginning of an overlong path.
fn abbreviated(field: &str) -> String {
    const SHOWN_MAX: usize = 200;
    match field.char_indices().nth(SHOWN_MAX) {
        Some((end, _)) => format!("{}…", &field[..end]),
        None => field.to_owned(),
    }
}

/// Sets a value, making the sections on its way. False if the path has an empty
/// part or leads through something that is not a section.
fn set(node: &mut Node, path: &str, value: Node) -> bool {
    let (key, rest) = match path.split_once('.') {
        Some((key, rest)) => (key, Some(rest)),
        None => (path, None),
    };
    if node.value == Value::Null {
        *node = Node::empty_map();
    }
    let Value::Map(entries) = &mut node.value else {
        return false;
    };
    if key.is_empty() {
        return false;
    }
    let child = entry(entries, key);
    match rest {
        Some(rest) => set(child, rest, value),
        None => {
            *child = value;
            true
        }
    }
}

/// The value of a key, which is added if it is not there.
fn entry<'a>(entries: &'a mut Vec<Entry>, key: &str) -> &'a mut Node {
    let at = entries.iter().position(|entry| entry.key == key);
    let at = at.unwrap_or_else(|| {
        entries.push(Entry { key: key.to_owned(), key_at: None, node: Node::empty_map() });
        entries.len() - 1
    });
    // What is wrong with the new value is not on the old one's line.
    entries[at].key_at = None;
    &mut entries[at].node
}

fn without_positions(mut node: Node) -> Node {
    node.at = None;
    match &mut node.value {
        Value::List(nodes) => {
            for node in nodes {
                *node = without_positions(node.clone());
            }
        }
        Value::Map(entries) => {
            for entry in entries {
                entry.key_at = None;
                entry.node = without_positions(entry.node.clone());
            }
        }
        _ => {}
    }
    node
}
