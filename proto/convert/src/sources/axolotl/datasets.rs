//! axolotl's `datasets` and `test_datasets`.

use serde_json::{Map, Value, json};

use super::types::{self, Prompt};
use super::{Rows, answers, layouts, pairs};
use crate::draft::Draft;
use crate::rule::{Rule, Table, keys, unknown};
use crate::sources::entries::{self, Entry, Split};
use crate::sources::hub;
use crate::values::{is_off, shown};

/// The type of data sets of plain text.
const TEXTS: &str = "completion";

/// Keys of a data set.
const ENTRY: Table = &[
    ("path", Rule::Own),
    ("name", Rule::Own),
    ("revision", Rule::Own),
    ("data_files", Rule::Own),
    ("split", Rule::Own),
    ("type", Rule::Own),
    ("conversation", Rule::Own),
    ("field", Rule::Own),
    ("field_messages", Rule::Own),
    ("field_system", Rule::Own),
    ("field_tools", Rule::Own),
    ("field_thinking", Rule::Own),
    ("template_thinking_key", Rule::Own),
    ("field_chosen", Rule::Own),
    ("field_rejected", Rule::Own),
    ("roles_to_train", Rule::Own),
    ("message_property_mappings", Rule::Own),
    ("message_field_role", Rule::Own),
    ("message_field_content", Rule::Own),
    ("message_field_training", Rule::Own),
    ("roles", Rule::Own),
    ("train_on_eos", Rule::Own),
    ("train_on_eot", Rule::Own),
    ("drop_system_message", Rule::Own),
    ("chat_template", Rule::Own),
    ("chat_template_jinja", Rule::Own),
    ("ds_type", Rule::Dropped("the format of a file follows from its name")),
    ("preprocess_shards", Rule::Dropped(super::PREPARED)),
    ("shards", Rule::Refused(FEWER_ROWS)),
    ("shards_idx", Rule::Refused(FEWER_ROWS)),
    (
        "trust_remote_code",
        Rule::Refused(
            "no code of data sets is run; leave it out, if the set has files such as Parquet or JSON",
        ),
    ),
    (
        "message_field_training_detail",
        Rule::Refused("whole turns are trained on; use message_field_training"),
    ),
    ("split_thinking", Rule::Refused("give thoughts in a field of their own, reasoning_content")),
];
const FEWER_ROWS: &str = "rows are chosen by split, such as train[:10%]";

/// Returns true if all data sets are plain texts.
pub(super) fn are_texts(settings: &Map<String, Value>) -> bool {
    let entries = settings.get("datasets").and_then(Value::as_array);
    entries.into_iter().flatten().all(|entry| text(entry, "type") == TEXTS)
}

/// Returns true if all data sets are instructions, which get prompts rather than templates.
pub(super) fn have_prompts(settings: &Map<String, Value>) -> bool {
    let entries = settings.get("datasets").and_then(Value::as_array);
    let has_prompt = |entry: &Value| types::of_entry(entry).is_ok_and(|kind| kind.prompt.is_some());
    entries.is_some_and(|entries| entries.iter().all(has_prompt))
}

/// The data sets of both keys.
pub(super) fn read(rows: Rows, settings: &Map<String, Value>, draft: &mut Draft) {
    let mut splits = Vec::new();
    let is_shared = share_column(settings);
    for (key, path) in [("datasets", "data.train"), ("test_datasets", "data.validation")] {
        let Some(Value::Array(given)) = settings.get(key) else { continue };
        let is_given = draft.get(path).is_some();
        let mut entries = Vec::new();
        for entry in given {
            if check_keys(key, entry, draft) {
                entries.extend(self::entry(key, path, entry, rows, is_shared, is_given, draft));
            }
        }
        splits.push(Split { path, key, entries, is_given });
    }
    entries::write(splits, draft);
}

/// Returns true if the texts of all data sets are in columns of one name.
fn share_column(settings: &Map<String, Value>) -> bool {
    let keys = ["datasets", "test_datasets"].into_iter();
    let entries = keys.filter_map(|key| settings.get(key)?.as_array()).flatten();
    let mut columns = entries.map(|entry| entry.get("field"));
    let first = columns.next();
    columns.all(|column| Some(column) == first)
}

/// A data set with what it says about its rows.
///
/// Texts of all sets are in one column if `is_shared`.
fn entry(
    key: &str,
    path: &str,
    entry: &Value,
    rows: Rows,
    is_shared: bool,
    is_given: bool,
    draft: &mut Draft,
) -> Option<Entry> {
    let mut settings = match rows {
        Rows::Pairs => pairs::read_columns(key, &text(entry, "type"), entry, draft),
        Rows::Answers => answers::read_columns(key, entry, draft),
        Rows::Conversations => conversations(key, entry, draft)?,
    };
    if let Some(column) = entry.get("field").filter(|value| !is_off(value)) {
        match is_shared {
            true => draft.set("data.text", column.clone(), "field"),
            false if *column == "text" => {}
            false => {
                let rename = json!({shown(column): "text"});
                settings.insert("columns".to_owned(), json!({"rename": rename}));
            }
        }
    }
    if let Some(name) = entry.get("name").filter(|value| !is_off(value)) {
        settings.insert("dataset_config_name".to_owned(), shown(name).into());
    }
    if let Some(split) = split(path, entry) {
        settings.insert("split".to_owned(), split.into());
    }
    match files(entry) {
        _ if is_given => Some(Entry { paths: Vec::new(), settings }),
        Ok(paths) => Some(Entry { paths, settings }),
        Err(problem) => {
            draft.refuse(key, problem.to_string());
            None
        }
    }
}

/// The layout of a data set for fine-tuning.
fn conversations(key: &str, entry: &Value, draft: &mut Draft) -> Option<Map<String, Value>> {
    let kind = match types::of_entry(entry) {
        Ok(kind) => kind,
        Err(problem) => {
            draft.refuse(&format!("{key}.type"), problem);
            return None;
        }
    };
    match &kind.prompt {
        Some(Prompt::Style(style)) if style != "instruct" => {
            draft.set("data.prompt_style", style.as_str().into(), "type");
        }
        Some(Prompt::Own(texts)) => {
            draft.set("data.prompt_template", Value::Object(texts.clone()), "type");
        }
        _ => {}
    }
    let mut settings = Map::from_iter([("format".to_owned(), kind.format.into())]);
    let mut fields = kind.fields;
    if let Some(column) = entry.get("field_system").filter(|value| !is_off(value)) {
        fields.insert("system".to_owned(), column.clone());
    }
    if !fields.is_empty() {
        settings.insert("fields".to_owned(), Value::Object(fields));
    }
    if kind.format == "messages" || kind.format == "sharegpt" {
        layouts::messages(key, entry, &mut settings, draft);
    }
    if kind.format == "sharegpt" {
        layouts::template_of_fastchat(key, entry, draft);
    }
    Some(settings)
}

/// Notes the keys of a data set that change nothing, and refuses those that would be lost. Returns
/// false for an entry without files.
fn check_keys(key: &str, entry: &Value, draft: &mut Draft) -> bool {
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
            None => {
                let advice = "remove it, if the job does not need it";
                draft.refuse(&key, unknown(name, keys(&[ENTRY]), advice));
            }
        }
    }
    entry.is_object()
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

/// The split of an entry, unless it is the one that is read without: of files all rows, which
/// `datasets` calls `train`; of a data set on the hub those of the field's name.
fn split(path: &str, entry: &Value) -> Option<String> {
    let split = entry.get("split").filter(|value| !is_off(value)).map(shown)?;
    let is_on_hub = entry.get("data_files").is_none() && !hub::is_file(&text(entry, "path"));
    let read = if is_on_hub { path.trim_start_matches("data.") } else { "train" };
    (split != read).then_some(split)
}

fn text(entry: &Value, name: &str) -> String {
    entry.get(name).filter(|value| !value.is_null()).map(shown).unwrap_or_default()
}
