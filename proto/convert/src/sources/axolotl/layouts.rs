//! The layouts of rows, whatever the job trains: columns of instructions, messages, and their chat template.

use serde_json::{Map, Value, json};
use traind_job_file::{TOKENIZER_DEFAULT, is_chat_template};

use crate::draft::Draft;
use crate::values::{is_off, shown};

/// Keys of an entry that are those of the section, for all sets alike.
const OF_ALL: [(&str, &str); 5] = [
    ("roles_to_train", "data.roles_to_train"),
    ("train_on_eos", "data.train_on_eos"),
    ("train_on_eot", "data.train_on_eot"),
    ("message_field_training", "data.message_field_training"),
    ("drop_system_message", "data.drop_system_message"),
];

/// The settings of a set of instructions in these columns.
pub(super) fn instructions(fields: Value) -> Map<String, Value> {
    Map::from_iter([("format".to_owned(), "alpaca".into()), ("fields".to_owned(), fields)])
}

/// Names of fields and roles, and the turns to train on.
pub(super) fn messages(
    key: &str,
    entry: &Value,
    settings: &mut Map<String, Value>,
    draft: &mut Draft,
) {
    let given = |name: &str| entry.get(name).filter(|value| !is_off(value));
    if let Some(column) = given("field_messages") {
        settings.insert("messages".to_owned(), column.clone());
    }
    let mut fields = given("message_property_mappings").cloned().unwrap_or_else(|| json!({}));
    let thinking = given("template_thinking_key").map_or("reasoning_content".to_owned(), shown);
    for (name, field) in [
        ("message_field_role", "role"),
        ("message_field_content", "content"),
        ("field_thinking", thinking.as_str()),
    ] {
        if let (Some(column), Some(fields)) = (given(name), fields.as_object_mut()) {
            fields.insert(field.to_owned(), column.clone());
        }
    }
    let is_usual = |(to, from): (&String, &Value)| from.as_str() == Some(to);
    if fields.as_object().is_some_and(|fields| !fields.iter().all(is_usual)) {
        settings.insert("message_property_mappings".to_owned(), fields);
    }
    if let Some(Value::Object(roles)) = given("roles") {
        let list = |(role, names): (&String, &Value)| {
            let names = if names.is_array() { names.clone() } else { json!([names]) };
            (role.clone(), names)
        };
        let roles: Map<String, Value> = roles.iter().map(list).collect();
        let is_usual = |(role, names): (&String, &Value)| *names == json!([role]);
        if !roles.iter().all(is_usual) {
            settings.insert("roles".to_owned(), Value::Object(roles));
        }
    }
    if let Some(column) = given("field_tools").filter(|column| **column != "tools") {
        let rename = json!({shown(column): "tools"});
        settings.insert("columns".to_owned(), json!({"rename": rename}));
    }
    for (name, path) in OF_ALL {
        if let Some(value) = given(name).filter(|value| !is_default(name, value)) {
            draft.set(path, value.clone(), name);
        }
    }
    template(&format!("{key}."), entry, draft);
}

/// The template of conversations that FastChat rendered in earlier versions of axolotl.
pub(super) fn template_of_fastchat(key: &str, entry: &Value, draft: &mut Draft) {
    let given = |key: &str| entry.get(key).filter(|value| !is_off(value)).map(shown);
    match given("conversation").as_deref() {
        Some(name) if is_chat_template(name) => {
            draft.set("data.chat_template", name.into(), "conversation");
        }
        Some(name) => draft.refuse(
            &format!("{key}.conversation"),
            format!("`{name}` is not a known chat template; name one as chat_template, and leave it out"),
        ),
        None if draft.get("data.chat_template").is_some() => {}
        None => draft.note(
            &format!("{key}.type"),
            "sharegpt: the model's chat template renders conversations, where earlier versions of axolotl took \
            Vicuna's prompts (vicuna_v1.1); data.chat_template names another",
        ),
    }
}

fn is_default(name: &str, value: &Value) -> bool {
    match name {
        "roles_to_train" => *value == json!(["assistant"]),
        "train_on_eos" => value == "turn",
        _ => false,
    }
}

/// The chat template of the job or of an entry.
pub(super) fn template(prefix: &str, settings: &Value, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value)).map(shown);
    if let Some(own) = given("chat_template_jinja") {
        return draft.set("data.chat_template", own.into(), "chat_template_jinja");
    }
    match given("chat_template").as_deref() {
        None | Some(TOKENIZER_DEFAULT) => {}
        Some(name) if is_chat_template(name) => {
            draft.set("data.chat_template", name.into(), "chat_template");
        }
        Some(name) => {
            let advice = "is not known here; use tokenizer_default, or give its text by \
                chat_template_jinja";
            draft.refuse(&format!("{prefix}chat_template"), format!("`{name}` {advice}"));
        }
    }
}
