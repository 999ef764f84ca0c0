//! Cells of rows as the values of a template.

use std::collections::BTreeMap;

use minijinja::Value as Jinja;

use crate::error::ChatProblem;
use crate::source::{Value, value_of_json};

/// The names under which a message may hold the assistant's reasoning; templates read the first.
const REASONING: [&str; 3] = ["reasoning_content", "thinking", "reasoning"];
/// The deepest value of a conversation.
const DEPTH_MAX: usize = 64;

/// The messages of a conversation. As in transformers, fields without a value are left out.
pub(super) fn conversation(messages: &[&Value]) -> Result<Jinja, ChatProblem> {
    if messages.is_empty() {
        return Err(ChatProblem::Empty);
    }
    messages.iter().map(|message| self::message(message)).collect()
}

fn message(message: &Value) -> Result<Jinja, ChatProblem> {
    let Value::Struct(fields) = message else {
        return Err(ChatProblem::NotAMessage { found: message.kind() });
    };
    let given = || fields.iter().filter(|(_, value)| *value != Value::Null);
    let has = |name: &str| given().any(|(field, _)| field == name);
    let mut converted: Vec<(String, Jinja)> = Vec::new();
    for (name, value) in given() {
        let name = match name.as_str() {
            "from" if !has("role") => "role",
            "value" if !has("content") => "content",
            name => name,
        };
        converted.push((name.to_owned(), self::value(value, 0)?));
    }
    if !converted.iter().any(|(name, _)| name == "role") {
        return Err(ChatProblem::NoRole);
    }
    add_reasoning(&mut converted);
    Ok(Jinja::from_pairs(converted))
}

/// Gives a message's reasoning the names that templates read.
fn add_reasoning(fields: &mut Vec<(String, Jinja)>) {
    let find = |name: &str| fields.iter().find(|(field, _)| field == name);
    let found = REASONING.into_iter().find_map(find).map(|(_, value)| value.clone());
    let Some(reasoning) = found else { return };
    fields.retain(|(name, _)| name != REASONING[0]);
    if !fields.iter().any(|(name, _)| name == REASONING[1]) {
        fields.push((REASONING[1].to_owned(), reasoning.clone()));
    }
    fields.push((REASONING[0].to_owned(), reasoning));
}

/// The tools of a row: a list, or one as JSON text.
pub(super) fn tools(tools: Option<&Value>) -> Result<Jinja, ChatProblem> {
    match tools {
        None | Some(Value::Null) => Ok(Jinja::from(())),
        Some(Value::Text(text)) => {
            let parsed = serde_json::from_str(text)
                .map_err(|error| ChatProblem::Tools { message: error.to_string() })?;
            value(&value_of_json(parsed), 0)
        }
        Some(list @ Value::List(_)) => value(list, 0),
        Some(other) => {
            Err(ChatProblem::Tools { message: format!("expected a list, found {}", other.kind()) })
        }
    }
}

/// Further variables of a row.
pub(super) fn variables(variables: Option<&Value>) -> Result<BTreeMap<String, Jinja>, ChatProblem> {
    match variables {
        None | Some(Value::Null) => Ok(BTreeMap::new()),
        Some(Value::Struct(fields)) => {
            fields.iter().map(|(name, field)| Ok((name.clone(), value(field, 0)?))).collect()
        }
        Some(other) => Err(ChatProblem::Variables { found: other.kind() }),
    }
}

/// Returns true if any text has a character that `is` accepts.
pub(super) fn contains(value: &Value, is: fn(char) -> bool) -> bool {
    match value {
        Value::Text(text) => text.contains(is),
        Value::List(items) => items.iter().any(|item| contains(item, is)),
        Value::Struct(fields) => fields.iter().any(|(_, field)| contains(field, is)),
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::Bytes(_) => false,
    }
}

fn value(value: &Value, depth: usize) -> Result<Jinja, ChatProblem> {
    if depth > DEPTH_MAX {
        return Err(ChatProblem::Depth);
    }
    Ok(match value {
        Value::Null => Jinja::from(()),
        Value::Bool(flag) => Jinja::from(*flag),
        Value::Int(integer) => Jinja::from(*integer),
        Value::Float(float) => Jinja::from(*float),
        Value::Text(text) => Jinja::from(text.as_str()),
        Value::Bytes(bytes) => Jinja::from_bytes(bytes.clone()),
        Value::List(items) => {
            let items = items.iter().map(|item| self::value(item, depth + 1));
            items.collect::<Result<Vec<_>, _>>()?.into()
        }
        Value::Struct(fields) => {
            let fields = fields
                .iter()
                .map(|(name, field)| Ok((name.clone(), self::value(field, depth + 1)?)));
            Jinja::from_pairs(fields.collect::<Result<Vec<_>, _>>()?)
        }
    })
}
