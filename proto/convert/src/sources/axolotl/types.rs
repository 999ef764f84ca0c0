//! The types of axolotl's data sets: how their rows hold texts.

use serde_json::{Map, Value, json};

use crate::values::{is_off, shown};

/// The meaning of a type for the job.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kind {
    /// The layout of rows.
    pub(super) format: &'static str,
    /// Columns of the layout, by their names there.
    pub(super) fields: Map<String, Value>,
    /// The prompt of instructions: its name, or texts of its own.
    pub(super) prompt: Option<Prompt>,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Prompt {
    Style(String),
    Own(Map<String, Value>),
}

/// The type of an entry, or the reason why it is not converted.
pub(super) fn of_entry(entry: &Value) -> Result<Kind, String> {
    match entry.get("type") {
        None | Some(Value::Null) => Ok(Kind::new("pretokenized")),
        Some(Value::Object(own)) => own_prompt(own),
        Some(name) => named(&shown(name), entry),
    }
}

fn named(name: &str, entry: &Value) -> Result<Kind, String> {
    let (base, style) = name.split_once(':').map_or((name, None), |(base, it)| (base, Some(it)));
    let style_of = |default: &str| style.unwrap_or(default).to_owned();
    let answers_in = |column: &str| Map::from_iter([("output".to_owned(), json!(column))]);
    Ok(match base {
        "" => Kind::new("pretokenized"),
        "chat_template" => Kind::new("messages"),
        "completion" => Kind::new("completion"),
        "sharegpt" => Kind::new("sharegpt"),
        "alpaca" | "alpaca_instruct" | "alpaca_instruct.load" => {
            Kind::instructions(style_of("instruct"), Map::new())
        }
        "alpaca_chat" | "alpaca_chat.load" => {
            let style = entry.get("conversation").filter(|value| !is_off(value));
            Kind::instructions(style.map_or_else(|| style_of("chat"), shown), Map::new())
        }
        "gpteacher" => Kind::instructions(style_of("instruct"), answers_in("response")),
        "oasst" => {
            let mut fields = answers_in("RESPONSE");
            fields.insert("instruction".to_owned(), json!("INSTRUCTION"));
            fields.insert("input".to_owned(), Value::Null);
            Kind::instructions(style_of("instruct"), fields)
        }
        _ => return Err(format!("`{name}` {TYPES}")),
    })
}

const TYPES: &str = "is not supported; `chat_template` trains on messages, `alpaca` on \
    instructions, `completion` on plain text, and a mapping with `format` on prompts of your own";

/// A type with prompts of its own.
fn own_prompt(own: &Map<String, Value>) -> Result<Kind, String> {
    let given = |key: &str| own.get(key).filter(|value| !value.is_null()).cloned();
    let mut fields = Map::new();
    for name in ["instruction", "input", "output", "system"] {
        if let Some(column) = given(&format!("field_{name}")) {
            fields.insert(name.to_owned(), column);
        }
    }
    let mut prompt = Map::new();
    for name in ["format", "no_input_format", "system_prompt", "system_format"] {
        if let Some(text) = given(name).filter(|text| *text != "") {
            prompt.insert(name.to_owned(), text);
        }
    }
    prompt.entry("format").or_insert_with(|| json!("{instruction} {input} "));
    Ok(Kind { format: "alpaca", fields, prompt: Some(Prompt::Own(prompt)) })
}

impl Kind {
    fn new(format: &'static str) -> Self {
        Self { format, fields: Map::new(), prompt: None }
    }

    /// Rows of `alpaca`. The prompts of its styles read neither history nor the system's text.
    fn instructions(style: String, fields: Map<String, Value>) -> Self {
        Self { format: "alpaca", fields, prompt: Some(Prompt::Style(style)) }
    }
}
