//! Data sets of `rl: kto`: prompts with an answer that is desirable or not.

use serde_json::{Map, Value, json};

use super::layouts;
use crate::draft::Draft;
use crate::rule::unknown;
use crate::values::{is_off, shown};

const TYPES: &str = "is not supported; `chatml` and `llama3` with `.argilla`, `.argilla_chat`, `.intel`, `.prompt_pairs` or \
    `.ultra` are, and a mapping with field_prompt, field_completion and field_label";

/// The columns of a set, and the settings that are the set's own.
pub(super) fn read_columns(key: &str, entry: &Value, draft: &mut Draft) -> Map<String, Value> {
    match entry.get("type") {
        Some(Value::Object(own)) => own_columns(key, own, draft),
        kind => {
            let name = kind.filter(|kind| !kind.is_null()).map(shown).unwrap_or_default();
            match named(&name) {
                Some((template, settings)) => {
                    draft.set("data.chat_template", template.into(), "type");
                    draft.note(&format!("{key}.type"), ENDS);
                    settings
                }
                None => {
                    draft.refuse(&format!("{key}.type"), format!("`{name}` {TYPES}"));
                    Map::new()
                }
            }
        }
    }
}

const ENDS: &str = "prompts and answers are rendered by the chat template of this name, which trims texts and ends an answer \
    as a turn; axolotl takes texts as they are, and adds the end-of-sequence token";

/// The chat template and the layout of a type.
fn named(name: &str) -> Option<(&str, Map<String, Value>)> {
    let (template, style) =
        name.split_once('.').filter(|(it, _)| ["chatml", "llama3"].contains(it))?;
    let instruction = match style {
        "argilla" => "instruction",
        "intel" => "question",
        "prompt_pairs" | "ultra" => "prompt",
        "argilla_chat" => {
            let settings = [("format", "messages"), ("messages", "completion")];
            let settings = settings.map(|(key, value)| (key.to_owned(), value.into()));
            return Some((template, Map::from_iter(settings)));
        }
        _ => return None,
    };
    let fields = json!({"instruction": instruction, "input": null, "history": null, "output": "completion",
        "system": "system"});
    Some((template, layouts::instructions(fields)))
}

/// Columns of texts, which have no layout.
fn own_columns(key: &str, own: &Map<String, Value>, draft: &mut Draft) -> Map<String, Value> {
    const COLUMNS: [(&str, &str); 3] = [
        ("field_prompt", "data.prompt"),
        ("field_completion", "data.completion"),
        ("field_label", "data.label"),
    ];
    const FORMATS: [(&str, &str); 2] =
        [("prompt_format", "{prompt}"), ("completion_format", "{completion}")];
    for (name, value) in own.iter().filter(|(_, value)| !is_off(value)) {
        let full = format!("{key}.type.{name}");
        if let Some((_, path)) = COLUMNS.iter().find(|(known, _)| known == name) {
            draft.set(path, value.clone(), name);
        } else if let Some((_, usual)) = FORMATS.iter().find(|(known, _)| known == name) {
            if value != usual {
                let advice = format!(
                    "texts are read as they are: write them so into the columns, and set {usual}"
                );
                draft.refuse(&full, advice);
            }
        } else if name != "field_system" {
            let known = COLUMNS.iter().chain(&FORMATS).map(|(known, _)| *known);
            draft.refuse(&full, unknown(name, known, "remove it, if the job does not need it"));
        }
    }
    Map::new()
}
