//! axolotl's `datasets` and `test_datasets`.

use serde_json::{Map, Value};

use super::{Rows, preferences};
use crate::draft::Draft;
use crate::rule::{Rule, Table};
use crate::sources::hub;
use crate::values::{is_off, shown};

/// The type of data sets with messages.
const CHAT: &str = "chat_template";
/// The name of the model folder's own chat template.
pub(super) const TOKENIZER_DEFAULT: &str = "tokenizer_default";
const TYPES: &str =
    "is not supported; `type: chat_template` trains on messages, `type: completion` on plain text";

/// Keys of a data set.
const ENTRY: Table = &[
    ("path", Rule::Own),
    ("name", Rule::Own),
    ("revision", Rule::Own),
    ("data_files", Rule::Own),
    ("split", Rule::Own),
    ("type", Rule::Own),
    ("field", Rule::Own),
    ("field_messages", Rule::Own),
    ("field_chosen", Rule::Own),
    ("field_rejected", Rule::Own),
    ("roles_to_train", Rule::Own),
    ("message_property_mappings", Rule::Own),
    ("roles", Rule::Own),
    ("train_on_eos", Rule::Own),
    ("chat_template", Rule::Own),
    ("chat_template_jinja", Rule::Refused(super::OWN_TEMPLATE)),
    ("ds_type", Rule::Dropped("the format of a file follows from its name")),
    ("preprocess_shards", Rule::Dropped(super::PREPARED)),
    ("shards", Rule::Refused(FEWER_ROWS)),
    ("shards_idx", Rule::Refused(FEWER_ROWS)),
    ("trust_remote_code", Rule::Refused("no code of data sets is run")),
];
const FEWER_ROWS: &str = "all rows are read; give smaller files, or use max_steps";

/// Returns true if the first data set has messages.
pub(super) fn first_has_messages(settings: &Map<String, Value>) -> bool {
    let first = settings.get("datasets").and_then(|entries| entries.get(0)?.get("type"));
    first.and_then(Value::as_str) == Some(CHAT)
}

/// Files or data sets under a key, with one set of columns for all.
pub(super) fn read(
    key: &str,
    path: &str,
    rows: Rows,
    settings: &Map<String, Value>,
    draft: &mut Draft,
) {
    let Some(Value::Array(entries)) = settings.get(key) else { return };
    let is_given = draft.get(path).is_some();
    let mut found = Vec::new();
    for entry in entries {
        read_columns(key, entry, rows, draft);
        match files(entry) {
            Ok(files) => found.extend(files.into_iter().map(Value::from)),
            Err(problem) => draft.refuse(key, problem.to_string()),
        }
        if !is_given {
            check_split(key, path, entry, draft);
        }
    }
    let files = if found.len() == 1 { found.remove(0) } else { Value::Array(found) };
    draft.set(path, files, key);
}

/// Reads what an entry says about its rows.
fn read_columns(key: &str, entry: &Value, rows: Rows, draft: &mut Draft) {
    let kind = text(entry, "type");
    match (kind.as_str(), rows) {
        (kind, Rows::Pairs) => preferences::read_columns(key, kind, entry, draft),
        (CHAT, Rows::Conversations) => {
            check_chat(key, entry, draft);
            if let Some(column) = entry.get("field_messages") {
                draft.set("data.messages", column.clone(), "field_messages");
            }
        }
        ("completion", Rows::Texts) => {}
        (CHAT | "completion", _) => {
            return draft.refuse(&format!("{key}.type"), "must be the same for all data sets");
        }
        (other, _) => return draft.refuse(&format!("{key}.type"), format!("`{other}` {TYPES}")),
    }
    check_keys(key, entry, draft);
    if let Some(column) = entry.get("field") {
        draft.set("data.text", column.clone(), "field");
    }
    if let Some(name) = entry.get("name") {
        draft.set("data.dataset_config_name", name.clone(), "name");
    }
}

/// Notes the keys of a data set that change nothing, and refuses those that would be lost.
fn check_keys(key: &str, entry: &Value, draft: &mut Draft) {
    for (name, value) in entry.as_object().into_iter().flatten() {
        if is_off(value) {
            continue;
        }
        let rule = ENTRY.iter().find(|(known, _)| known == name);
        let key = format!("{key}.{name}");
        match rule.map(|(_, rule)| rule) {
            Some(Rule::Dropped(reason)) => draft.note(&key, format!("dropped: {reason}")),
            Some(Rule::Refused(advice)) => draft.refuse(&key, *advice),
            Some(_) => {}
            None => draft.refuse(&key, "is not known here; remove it, if the job does not need it"),
        }
    }
}

/// Refuses settings of messages that differ from what is done with all of them.
pub(super) fn check_chat(key: &str, entry: &Value, draft: &mut Draft) {
    const USUAL: [(&str, &str); 5] = [
        ("roles_to_train", "[\"assistant\"]"),
        ("message_property_mappings", "{\"content\":\"content\",\"role\":\"role\"}"),
        ("roles", "{\"assistant\":[\"assistant\"],\"system\":[\"system\"],\"user\":[\"user\"]}"),
        ("train_on_eos", "turn"),
        ("chat_template", TOKENIZER_DEFAULT),
    ];
    for (name, usual) in USUAL {
        let given = entry.get(name).filter(|value| !is_off(value));
        let sorted = |value: &Value| {
            let mut value = value.clone();
            value.sort_all_objects();
            shown(&value)
        };
        if given.is_some_and(|value| sorted(value) != usual) {
            draft.refuse(&format!("{key}.{name}"), format!("is {usual} here; leave it out"));
        }
    }
}

/// The files of an entry, or the id of its data set on the hub.
fn files(entry: &Value) -> Result<Vec<String>, hub::NotAnId> {
    let place = text(entry, "path");
    let names = match entry.get("data_files") {
        Some(Value::Array(files)) => files.iter().map(shown).collect(),
        Some(file) if !is_off(file) => vec![shown(file)],
        _ => Vec::new(),
    };
    if FORMATS.contains(&place.as_str()) && !names.is_empty() {
        return Ok(names);
    }
    let place = match hub::is_file(&place) {
        true => place,
        false => hub::address(&place, &text(entry, "revision"), !names.is_empty())?,
    };
    if names.is_empty() {
        return Ok(vec![place]);
    }
    let folder = place.trim_end_matches('/');
    Ok(names.into_iter().map(|name| format!("{folder}/{name}")).collect())
}

/// The names by which `datasets` reads the files of `data_files`.
const FORMATS: [&str; 6] = ["", "json", "csv", "parquet", "arrow", "text"];

/// Refuses a split other than the one that is read: of files all rows, which `datasets` calls `train`;
/// of a data set on the hub those of the field's name.
fn check_split(key: &str, path: &str, entry: &Value, draft: &mut Draft) {
    let Some(split) = entry.get("split").filter(|value| !is_off(value)).map(shown) else { return };
    let is_on_hub = entry.get("data_files").is_none() && !hub::is_file(&text(entry, "path"));
    let read = if is_on_hub { path.trim_start_matches("data.") } else { "train" };
    if split != read {
        let advice = "is not read here; give its files by --set";
        let example = format!("{path}=hf://datasets/ORG/NAME/FILES");
        draft.refuse(&format!("{key}.split"), format!("`{split}` {advice} {example}"));
    }
}

fn text(entry: &Value, name: &str) -> String {
    entry.get(name).filter(|value| !value.is_null()).map(shown).unwrap_or_default()
}
