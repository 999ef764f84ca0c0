//! Prompts with a chosen and a rejected answer, in the layouts of the tools.

use super::conversation::{ASSISTANT, Turn};
use super::{Encoding, Layouts};
use crate::chat::{ChatOptions, RowTexts};
use crate::error::{Error, Result};
use crate::source::Value;

/// The tokens of a prompt and its two completions.
pub(crate) struct Pair {
    /// The prompt alone.
    pub(crate) prompt: Vec<u32>,
    /// The tokens behind the prompt.
    pub(crate) completions: [Vec<u32>; 2],
}

impl Layouts {
    /// The tokens of a row for preference optimization; None for rows that the tools leave out.
    pub(crate) fn pair(&self, texts: &RowTexts<'_>, max_length: u32) -> Result<Option<Pair>> {
        let layout = self.of_set(texts.row.set);
        let fields = &layout.fields;
        let prompt = layout.prompt(texts)?;
        let mut answers = Vec::new();
        for column in [&fields.chosen, &fields.rejected] {
            answers.push(self.answer(texts, column)?);
        }
        let answers: [Turn; 2] = answers.try_into().map_err(|_| no_pairs())?;
        match &self.encoding {
            Encoding::Pieces(rule) => {
                let bos_token = self.bos_token.as_deref();
                rule.pair(layout, texts, bos_token, (prompt, answers), max_length)
            }
            Encoding::Template | Encoding::Turns(_) => {
                let ids = |column: &str, answer: Option<&Turn>| -> Result<Vec<u32>> {
                    let turns = prompt.iter().chain(answer);
                    let messages: Vec<&Value> = turns.map(|turn| &turn.message).collect();
                    let prompts = answer.is_none();
                    let options = ChatOptions { prompts, ..ChatOptions::default() };
                    let chat = texts.render(column, &messages, options)?;
                    Ok(texts.encode_as_it_is(&chat.text)?.encoded.input_ids)
                };
                let [chosen, rejected] = &answers;
                let completions =
                    [ids(&fields.chosen, Some(chosen))?, ids(&fields.rejected, Some(rejected))?];
                Ok(Some(Pair { prompt: ids(layout.required(texts), None)?, completions }))
            }
            Encoding::Instructions { .. } => Err(no_pairs()),
        }
    }

    /// An answer: text, a message, or a conversation whose last message it is.
    fn answer(&self, texts: &RowTexts<'_>, column: &str) -> Result<Turn> {
        let layout = self.of_set(texts.row.set);
        let message = match texts.row.find(column) {
            Some(Value::List(messages)) => messages.last(),
            Some(message @ Value::Struct(_)) => Some(message),
            _ => None,
        };
        match message {
            Some(message) => layout.turn(message).map_err(|problem| texts.problem(column, problem)),
            None => Ok(Turn::new(ASSISTANT, layout.text(texts, column)?)),
        }
    }
}

fn no_pairs() -> Error {
    Error::BadOption {
        field: "data.format",
        message: "has no pairs of answers in this layout; dpo takes alpaca, sharegpt and messages \
            with data.chat_template or data.template"
            .to_owned(),
    }
}
