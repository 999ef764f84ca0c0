//! Data sets of a chosen and a rejected answer to a prompt.

use serde_json::{Map, Value, json};

use super::layouts;
use crate::draft::Draft;
use crate::values::is_off;

const TYPES: &str = "is not supported; `chat_template.default` and `chat_template.argilla_chat` \
    train on messages, `passthrough` on texts";

/// The type of sets for models of rewards.
const BRADLEY_TERRY: &str = "bradley_terry.chat_template";

/// The columns of a set, and the settings that are the set's own.
pub(super) fn read_columns(
    key: &str,
    kind: &str,
    entry: &Value,
    draft: &mut Draft,
) -> Map<String, Value> {
    let mut settings = Map::new();
    let columns: &[(&str, &str)] = match kind {
        BRADLEY_TERRY => return rewards(key, entry, draft),
        "chat_template" | "chat_template.default" => {
            layouts::messages(key, entry, &mut settings, draft);
            // Under other names, messages are in a layout; else they are TRL's prompts.
            let names = ["roles", "message_property_mappings", "columns"];
            if names.iter().any(|name| settings.contains_key(*name)) {
                settings.insert("format".to_owned(), "messages".into());
            } else {
                let column = settings.remove("messages").unwrap_or_else(|| "messages".into());
                draft.imply("data.prompt", column);
            }
            &COMPLETIONS
        }
        "chat_template.argilla" | "chat_template.argilla_chat" => {
            layouts::messages(key, entry, &mut settings, draft);
            for name in ["roles", "message_property_mappings"] {
                if settings.contains_key(name) {
                    draft.refuse(&format!("{key}.{name}"), "messages have role and content here");
                }
            }
            settings.clear();
            &COMPLETIONS
        }
        "passthrough" | "passthrough.default" => &[],
        other => {
            draft.refuse(&format!("{key}.type"), format!("`{other}` {TYPES}"));
            return settings;
        }
    };
    // TRL ends the texts of `orpo` in any case, and the template as it is.
    let is_of_texts = draft.get("model.task").is_some_and(|task| task == "orpo");
    if !columns.is_empty() && !is_of_texts {
        draft.note(&format!("{key}.type"), ENDS);
    }
    for (field, path) in columns {
        if let Some(column) = entry.get(*field) {
            draft.set(path, column.clone(), field);
        }
    }
    settings
}

const ENDS: &str = "answers end as the template ends a turn; axolotl leaves out the white space after it, and adds the \
    end-of-sequence token";

const COMPLETIONS: [(&str, &str); 2] =
    [("field_chosen", "data.chosen"), ("field_rejected", "data.rejected")];

/// Rows of models of rewards: a question, with a text of the system or without, and two answers.
fn rewards(key: &str, entry: &Value, draft: &mut Draft) -> Map<String, Value> {
    let names = ["field_messages", "roles", "message_property_mappings"];
    for name in names {
        if entry.get(name).is_some_and(|value| !is_off(value)) {
            draft.refuse(
                &format!("{key}.{name}"),
                "rows have the columns system, input, chosen and rejected here",
            );
        }
    }
    layouts::template(&format!("{key}."), entry, draft);
    let fields =
        json!({"instruction": "input", "input": null, "history": null, "system": "system"});
    layouts::instructions(fields)
}
