//! axolotl's keys about special tokens.

use serde_json::{Map, Value};

use super::Rows;
use crate::draft::Draft;
use crate::values::{is_off, shown};

/// Reads `special_tokens` and `eot_tokens`.
pub(super) fn read(rows: Rows, settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    if let Some(Value::Object(tokens)) = given("special_tokens") {
        for (name, token) in tokens.iter().filter(|(_, token)| !is_off(token)) {
            special_token(rows, name, token, draft);
        }
    }
    if let Some(tokens) = given("eot_tokens") {
        match rows {
            Rows::Conversations => draft.set("data.eot_tokens", tokens.clone(), "eot_tokens"),
            _ => draft.note("eot_tokens", "dropped: applies to conversations alone"),
        }
    }
}

fn special_token(rows: Rows, name: &str, token: &Value, draft: &mut Draft) {
    const KEY: &str = "special_tokens";
    match (name, rows) {
        ("eos_token", Rows::Conversations | Rows::Pairs) => {
            draft.set("data.eos_token", shown(token).into(), KEY);
        }
        ("pad_token", _) => draft.note(KEY, "pad_token: dropped: padding is masked"),
        _ => draft.note(KEY, format!("{name}: dropped: the tokenizer is the model's")),
    }
}
