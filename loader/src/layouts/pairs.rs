//! Prompts with a chosen and a rejected answer, or with one that is desirable or not, in the layouts of the tools.

use super::conversation::{ASSISTANT, Turn};
use super::{Encoding, Layouts, RowFormat};
use crate::chat::{ChatOptions, RowTexts};
use crate::error::{ChatProblem, Error, Result};
use crate::source::Value;

/// The tokens of a prompt and of its completions.
pub(crate) struct Answered {
    /// The prompt alone.
    pub(crate) prompt: Vec<u32>,
    /// The prompt with each of the completions behind it.
    pub(crate) wholes: Vec<Vec<u32>>,
}

impl Layouts {
    /// The tokens of a row with a chosen and a rejected answer, in this order; None for rows that the tools leave out.
    pub(crate) fn pair(&self, texts: &RowTexts<'_>, max_length: u32) -> Result<Option<Answered>> {
        let layout = self.of_set(texts.row.set);
        let fields = &layout.fields;
        let columns = [fields.chosen.as_str(), &fields.rejected];
        let answers = columns.into_iter().map(|column| Ok((column, self.answer(texts, column)?)));
        let answers = answers.collect::<Result<Vec<_>>>()?;
        self.answered(texts, layout.prompt(texts)?, answers, max_length)
    }

    /// The tokens of a row whose conversation ends with its only answer; None for rows that the tools leave out.
    pub(crate) fn last_answer(
        &self,
        texts: &RowTexts<'_>,
        max_length: u32,
    ) -> Result<Option<Answered>> {
        let layout = self.of_set(texts.row.set);
        let column = layout.required(texts);
        if !matches!(layout.format, RowFormat::Alpaca | RowFormat::Conversation) {
            return Err(no_answers());
        }
        let mut turns = layout.conversation(texts)?;
        let answer = turns.pop().ok_or_else(|| texts.problem(column, ChatProblem::Empty))?;
        // The tools' templates of turns leave such rows out.
        if !matches!(self.encoding, Encoding::Pieces(_)) && answer.role() != ASSISTANT {
            let role = answer.role().to_owned();
            return Err(texts.problem(column, ChatProblem::NoAnswer { role }));
        }
        self.answered(texts, turns, vec![(column, answer)], max_length)
    }

    /// The tokens of a prompt and of its answers, each with the column that it is from.
    fn answered(
        &self,
        texts: &RowTexts<'_>,
        prompt: Vec<Turn>,
        answers: Vec<(&str, Turn)>,
        max_length: u32,
    ) -> Result<Option<Answered>> {
        let layout = self.of_set(texts.row.set);
        match &self.encoding {
            Encoding::Pieces(rule) => {
                let answers = answers.into_iter().map(|(_, answer)| answer).collect();
                let bos_token = self.bos_token.as_deref();
                rule.answered(layout, texts, bos_token, prompt, answers, max_length)
            }
            Encoding::Template | Encoding::Turns(_) => {
                let ids = |column: &str, answer: Option<&Turn>| -> Result<Vec<u32>> {
                    let turns = prompt.iter().chain(answer);
                    let messages: Vec<&Value> = turns.map(|turn| &turn.message).collect();
                    let prompts = answer.is_none();
                    let options = ChatOptions { prompts, ..ChatOptions::default() };
                    let chat = texts.render(column, &messages, options)?;
                    texts.ids_as_it_is(&chat.text)
                };
                let wholes = answers.iter().map(|(column, answer)| ids(column, Some(answer)));
                let wholes = wholes.collect::<Result<_>>()?;
                Ok(Some(Answered { prompt: ids(layout.required(texts), None)?, wholes }))
            }
            Encoding::Instructions { .. } => Err(no_answers()),
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

fn no_answers() -> Error {
    Error::BadOption {
        field: "data.format",
        message: "has no prompts and answers apart in this layout; preferences take alpaca, sharegpt and messages with \
            data.chat_template or data.template"
            .to_owned(),
    }
}
