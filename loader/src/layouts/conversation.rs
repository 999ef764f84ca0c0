//! Rows as conversations, whichever columns hold them.

use super::{RowFormat, RowLayout};
use crate::chat::RowTexts;
use crate::error::{ChatProblem, Error, Result};
use crate::source::{Value, value_of_json};

pub(super) const USER: &str = "user";
pub(super) const ASSISTANT: &str = "assistant";
pub(super) const SYSTEM: &str = "system";

/// One message of a conversation, as templates read it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Turn {
    pub(super) message: Value,
    /// Whether its text is a target, if the data say so.
    pub(super) trains: Option<bool>,
}

impl Turn {
    pub(super) fn new(role: &str, content: &str) -> Self {
        let field = |name: &str, text: &str| (name.to_owned(), Value::Text(text.to_owned()));
        let message = Value::Struct(vec![field("role", role), field("content", content)]);
        Self { message, trains: None }
    }

    pub(super) fn role(&self) -> &str {
        self.text("role")
    }

    /// The text; empty where the message has none.
    pub(super) fn content(&self) -> &str {
        self.text("content")
    }

    fn text(&self, name: &str) -> &str {
        match self.field(name) {
            Some(Value::Text(text)) => text,
            _ => "",
        }
    }

    pub(super) fn field(&self, name: &str) -> Option<&Value> {
        let Value::Struct(fields) = &self.message else { return None };
        fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }
}

impl RowLayout {
    /// The conversation of a row.
    pub(super) fn conversation(&self, texts: &RowTexts<'_>) -> Result<Vec<Turn>> {
        match self.format {
            RowFormat::Alpaca => {
                let mut turns = self.instruction(texts)?;
                turns.push(Turn::new(ASSISTANT, self.text(texts, &self.fields.output)?));
                Ok(turns)
            }
            _ => self.messages(texts),
        }
    }

    /// The conversation of a row before its answers.
    pub(super) fn prompt(&self, texts: &RowTexts<'_>) -> Result<Vec<Turn>> {
        match self.format {
            RowFormat::Alpaca => self.instruction(texts),
            _ => self.messages(texts),
        }
    }

    /// System, earlier turns, and instruction with input: `"\n".join` of those that are not empty.
    fn instruction(&self, texts: &RowTexts<'_>) -> Result<Vec<Turn>> {
        let fields = &self.fields;
        let mut turns = Vec::new();
        let system = self.text(texts, &fields.system)?;
        if !system.is_empty() && !self.drops_system {
            turns.push(Turn::new(SYSTEM, system));
        }
        if let Some(Value::List(pairs)) = texts.row.find(&fields.history) {
            for pair in pairs {
                let (question, answer) = pair_of_texts(pair).ok_or_else(|| {
                    texts.problem(&fields.history, ChatProblem::NotAPair { found: pair.kind() })
                })?;
                turns.push(Turn::new(USER, question));
                turns.push(Turn::new(ASSISTANT, answer));
            }
        }
        let parts = [self.text(texts, &fields.instruction)?, self.text(texts, &fields.input)?];
        let parts: Vec<&str> = parts.into_iter().filter(|part| !part.is_empty()).collect();
        turns.push(Turn::new(USER, &parts.join("\n")));
        Ok(turns)
    }

    /// The messages of a row, behind the system's text of a column of its own.
    fn messages(&self, texts: &RowTexts<'_>) -> Result<Vec<Turn>> {
        let column = self.required(texts);
        let problem = |problem: ChatProblem| texts.problem(column, problem);
        let parsed;
        let messages = match texts.row.cell(column) {
            Value::List(messages) => messages,
            Value::Text(json) => {
                parsed = parsed_messages(json).ok_or_else(|| {
                    problem(ChatProblem::NotAConversation { found: "text that is no JSON list" })
                })?;
                &parsed
            }
            other => return Err(problem(ChatProblem::NotAConversation { found: other.kind() })),
        };
        let turns = messages.iter().map(|message| self.turn(message).map_err(problem));
        let mut turns = turns.collect::<Result<Vec<Turn>, Error>>()?;
        let system = self.text(texts, &self.fields.system)?;
        let has_system = turns.first().is_some_and(|turn| turn.role() == SYSTEM);
        if !has_system && !system.is_empty() {
            turns.insert(0, Turn::new(SYSTEM, system));
        }
        if self.drops_system && turns.first().is_some_and(|turn| turn.role() == SYSTEM) {
            turns.remove(0);
        }
        Ok(turns)
    }

    /// A message with the fields that templates read.
    pub(super) fn turn(&self, message: &Value) -> Result<Turn, ChatProblem> {
        let Value::Struct(fields) = message else {
            return Err(ChatProblem::NotAMessage { found: message.kind() });
        };
        let find = |name: &str| fields.iter().find(|(field, _)| field == name);
        let given =
            |name: &str| find(name).map(|(_, value)| value).filter(|it| **it != Value::Null);
        let mut converted = Vec::new();
        for (to, from) in &self.message_fields {
            let Some(value) = given(from) else { continue };
            let value = match (to.as_str(), value) {
                ("role", Value::Text(name)) => Value::Text(self.role(name).to_owned()),
                ("content", Value::List(parts)) => Value::Text(joined(parts)?),
                ("tool_calls", calls) => with_parsed_arguments(calls),
                (_, value) => value.clone(),
            };
            converted.push((to.clone(), value));
        }
        if !converted.iter().any(|(name, _)| name == "role") {
            return Err(ChatProblem::NoRole);
        }
        let is_mapped = |name: &String| {
            self.message_fields.iter().any(|(to, from)| from == name || to == name)
                || self.training.contains(name)
        };
        for (name, value) in
            fields.iter().filter(|(name, value)| *value != Value::Null && !is_mapped(name))
        {
            let value =
                if name == "tool_calls" { with_parsed_arguments(value) } else { value.clone() };
            converted.push((name.clone(), value));
        }
        Ok(Turn { message: Value::Struct(converted), trains: self.trains(fields) })
    }
}

/// The texts of a question and its answer.
fn pair_of_texts(pair: &Value) -> Option<(&str, &str)> {
    let Value::List(items) = pair else { return None };
    match items.as_slice() {
        [Value::Text(question), Value::Text(answer)] => Some((question, answer)),
        _ => None,
    }
}

fn parsed_messages(json: &str) -> Option<Vec<Value>> {
    match value_of_json(serde_json::from_str(json).ok()?) {
        Value::List(messages) => Some(messages),
        _ => None,
    }
}

/// The text of a message whose content is a list of parts.
fn joined(parts: &[Value]) -> Result<String, ChatProblem> {
    let mut text = String::new();
    for part in parts {
        let Value::Struct(fields) = part else { continue };
        let find = |name: &str| fields.iter().find(|(field, _)| field == name);
        let is_given = |name: &str| find(name).is_some_and(|(_, value)| *value != Value::Null);
        if is_given("train") || is_given("weight") {
            return Err(ChatProblem::PartOfMessage);
        }
        let found = ["text", "content", "value"].into_iter().find_map(|name| match find(name) {
            Some((_, Value::Text(part))) if !part.is_empty() => Some(part.as_str()),
            _ => None,
        });
        text.push_str(found.unwrap_or_default());
    }
    Ok(text)
}

/// Calls of tools whose arguments are JSON in a text, with the arguments themselves.
fn with_parsed_arguments(value: &Value) -> Value {
    match value {
        Value::List(items) => Value::List(items.iter().map(with_parsed_arguments).collect()),
        Value::Struct(fields) => {
            let fields = fields.iter().map(|(name, field)| {
                let parsed = match (name.as_str(), field) {
                    ("arguments", Value::Text(json)) => serde_json::from_str(json).ok(),
                    _ => None,
                };
                let field = match (parsed, name.as_str()) {
                    (Some(json), _) => value_of_json(json),
                    (None, "function") => with_parsed_arguments(field),
                    (None, _) => field.clone(),
                };
                (name.clone(), field)
            });
            Value::Struct(fields.collect())
        }
        other => other.clone(),
    }
}
