//! axolotl's `datasets` and `test_datasets`.

use serde_json::{Map, Value};

use super::{Rows, preferences};
use crate::draft::Draft;
use crate::sources::hub;
use crate::values::{is_off, shown};

/// The type of data sets with messages.
const CHAT: &str = "chat_template";
/// The name of the model folder's own chat template.
pub(super) const TOKENIZER_DEFAULT: &str = "tokenizer_default";
const TYPES: &str =
    "is not supported; `type: chat_template` trains on messages, `type: completion` on plain text";

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
            draft.refuse(&format!("{key}.type"), "must be the same for all data sets");
        }
        (other, _) => draft.refuse(&format!("{key}.type"), format!("`{other}` {TYPES}")),
    }
    if let Some(column) = entry.get("field") {
        draft.set("data.text", column.clone(), "field");
    }
    if let Some(name) = entry.get("name") {
        draft.set("data.dataset_config_name", name.clone(), "name");
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
    match (entry.get("data_files"), text(entry, "path")) {
        (Some(Value::Array(files)), _) => Ok(files.iter().map(shown).collect()),
        (Some(files), _) => Ok(vec![shown(files)]),
        (None, place) if hub::is_file(&place) => Ok(vec![place]),
        (None, place) => hub::data_set(&place).map(|id| vec![id]),
    }
}

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
    entry.get(name).map(shown).unwrap_or_default()
}
