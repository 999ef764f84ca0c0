//! axolotl's keys about special tokens.

use serde_json::{Map, Value};

use super::Rows;
use crate::draft::Draft;
use crate::rule::is_field;
use crate::values::{is_off, shown};

/// Reads `special_tokens`, `tokens`, `eot_tokens` and the size of the embeddings.
pub(super) fn read(rows: Rows, settings: &Map<String, Value>, draft: &mut Draft) {
    let given = |key: &str| settings.get(key).filter(|value| !is_off(value));
    if let Some(Value::Object(tokens)) = given("special_tokens") {
        for (name, token) in tokens.iter().filter(|(_, token)| !is_off(token)) {
            special_token(name, token, draft);
        }
    }
    if let Some(tokens) = given("tokens") {
        draft.set("model.add_tokens", tokens.clone(), "tokens");
    }
    if given("resize_token_embeddings_to_32x").is_some() {
        let key = "resize_token_embeddings_to_32x";
        draft.set("model.pad_vocab_to_multiple_of", 32.into(), key);
    }
    if let Some(tokens) = given("eot_tokens") {
        match rows {
            Rows::Conversations => draft.set("data.eot_tokens", tokens.clone(), "eot_tokens"),
            _ => draft.note("eot_tokens", "dropped: applies to conversations alone"),
        }
    }
}

fn special_token(name: &str, token: &Value, draft: &mut Draft) {
    const KEY: &str = "special_tokens";
    let path = format!("model.add_special_tokens.{name}");
    if !is_field(&path) {
        return draft.refuse(KEY, format!("{name} is not the role of a special token"));
    }
    if name == "eos_token" {
        draft.set("data.eos_token", shown(token).into(), KEY);
    }
    draft.set(&path, token.clone(), KEY);
}
