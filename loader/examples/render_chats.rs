//! Renders conversations with the chat template of a tokenizer's folder. Each line of the standard input is a JSON
//! object with `messages` and, optionally, `tools`, `chat_template_kwargs` and `add_generation_prompt`. Each line of
//! the standard output has `text`, `input_ids` and `assistant_masks`, or an `error`.
//! `scripts/compare/chat_templates` compares them with those of transformers.
//!
//! `cargo run -p traind-loader --example render_chats -- TOKENIZER_FOLDER < CONVERSATIONS`

#![allow(clippy::print_stdout)]

use std::error::Error;
use std::io::stdin;
use std::path::Path;

use serde_json::{Map, Value as Json, json};
use traind_loader::{
    ChatOptions, ChatTemplate, HuggingFaceTokenizer, TextTokenizer, TokenizerOptions, Value,
    value_of_json,
};

type AnyResult<T> = Result<T, Box<dyn Error>>;

fn main() -> AnyResult<()> {
    let folder = std::env::args().nth(1).ok_or("usage: render_chats TOKENIZER_FOLDER")?;
    let tokenizer = HuggingFaceTokenizer::open(Path::new(&folder), &TokenizerOptions::default())?;
    let template = ChatTemplate::open(Path::new(&folder), None);
    for line in stdin().lines() {
        let row: Map<String, Json> = serde_json::from_str(&line?)?;
        let rendered = match &template {
            Ok(Some(template)) => rendered(template, &tokenizer, row),
            Ok(None) => Err("the tokenizer has no chat template".into()),
            Err(error) => Err(error.to_string().into()),
        };
        println!("{}", rendered.unwrap_or_else(|error| json!({"error": error.to_string()})));
    }
    Ok(())
}

fn rendered(
    template: &ChatTemplate,
    tokenizer: &HuggingFaceTokenizer,
    mut row: Map<String, Json>,
) -> AnyResult<Json> {
    let mut cell = |name: &str| row.remove(name).map(value_of_json);
    let Some(Value::List(messages)) = cell("messages") else { return Err("no messages".into()) };
    let (tools, variables) = (cell("tools"), cell("chat_template_kwargs"));
    let options = ChatOptions {
        real_last_index: None,
        prompts: cell("add_generation_prompt") == Some(Value::Bool(true)),
        marks: template.marks_generation(),
        tools: tools.as_ref(),
        variables: variables.as_ref(),
    };
    let rendered = template.render(&messages.iter().collect::<Vec<_>>(), &options)?;
    let encoding = tokenizer.encode_as_it_is(&rendered.text).map_err(|error| error.to_string())?;
    let masks = rendered.generated_tokens(&encoding.spans).into_iter().map(u8::from);
    Ok(json!({
        "text": rendered.text,
        "input_ids": encoding.encoded.input_ids,
        "assistant_masks": masks.collect::<Vec<_>>(),
    }))
}
