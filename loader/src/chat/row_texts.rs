//! The texts and conversations of one row as tokens, as the trainers of TRL make them.

use super::{ChatOptions, ChatTemplate, RenderedChat};
use crate::error::{ChatProblem, Error, Result};
use crate::source::{Row, Value};
use crate::tokenize::{Encoded, SpannedEncoding, TextTokenizer};

/// Columns that rows may have beside conversations, under TRL's names.
const TOOLS: &str = "tools";
const VARIABLES: &str = "chat_template_kwargs";

/// Reads the texts and conversations of a row.
pub(crate) struct RowTexts<'a> {
    pub(crate) row: &'a Row<'a>,
    pub(crate) tokenizer: &'a dyn TextTokenizer,
    pub(crate) template: Option<&'a ChatTemplate>,
    /// The text of the token that texts end with. Conversations end as the template has it.
    pub(crate) eos_token: Option<&'a str>,
}

/// The columns of `available` that templates read beside conversations.
pub(crate) fn template_columns<'a>(available: &[String]) -> Vec<&'a str> {
    let has = |column: &&str| available.iter().any(|name| name == column);
    [TOOLS, VARIABLES].into_iter().filter(has).collect()
}

impl<'a> RowTexts<'a> {
    /// The messages of a cell.
    pub(crate) fn conversation<'cell>(
        &self,
        column: &str,
        cell: &'cell Value,
    ) -> Result<Vec<&'cell Value>> {
        match cell {
            Value::List(messages) => Ok(messages.iter().collect()),
            other => {
                Err(self.problem(column, ChatProblem::NotAConversation { found: other.kind() }))
            }
        }
    }

    /// Renders a conversation of a column.
    pub(crate) fn render(
        &self,
        column: &str,
        messages: &[&Value],
        options: ChatOptions<'_>,
    ) -> Result<RenderedChat> {
        let no_template = || self.problem(column, ChatProblem::NoTemplate);
        let template = self.template.ok_or_else(no_template)?;
        let (tools, variables) = (self.row.find(TOOLS), self.row.find(VARIABLES));
        let options = ChatOptions { tools, variables, ..options };
        template.render(messages, &options).map_err(|problem| self.problem(column, problem))
    }

    /// The tokens of a text with the tokenizer's special ones.
    pub(crate) fn encode(&self, text: &str) -> Result<Encoded> {
        let encoded = self.tokenizer.encode_text(text, false);
        Ok(encoded.map_err(|problem| self.row.tokenize_error(problem))?.encoded)
    }

    /// Token ids of a text with the tokenizer's special ones, cut to `max_length`.
    pub(crate) fn encode_up_to(&self, text: &str, max_length: u32) -> Result<Vec<u32>> {
        if text.is_empty() {
            return Ok(Vec::new());
        }
        let encoded = self.tokenizer.encode_up_to(text, max_length);
        Ok(encoded.map_err(|problem| self.row.tokenize_error(problem))?.input_ids)
    }

    /// The id of a special token; None where its text is not one token.
    pub(crate) fn token_id(&self, token: Option<&str>) -> Result<Option<u32>> {
        let Some(token) = token else { return Ok(None) };
        let ids = self.ids_as_it_is(token)?;
        Ok(if let [id] = ids.as_slice() { Some(*id) } else { None })
    }

    /// The tokens of a rendered conversation, with their origins.
    pub(crate) fn encode_as_it_is(&self, text: &str) -> Result<SpannedEncoding> {
        self.tokenizer.encode_as_it_is(text).map_err(|problem| self.row.tokenize_error(problem))
    }

    /// The token ids of a rendered conversation.
    pub(crate) fn ids_as_it_is(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.encode_as_it_is(text)?.encoded.input_ids)
    }

    /// A text with the token that ends it.
    pub(crate) fn ended(&self, text: &str) -> Result<String> {
        let Some(eos_token) = self.eos_token else {
            let message =
                "is required, since tokenizer_config.json names no token that ends a text";
            let message = message.to_owned();
            return Err(Error::BadOption { field: "data.eos_token", message });
        };
        Ok(match text.ends_with(eos_token) {
            true => text.to_owned(),
            false => format!("{text}{eos_token}"),
        })
    }

    /// The error for the conversation of a column.
    pub(crate) fn problem(&self, column: &str, problem: ChatProblem) -> Error {
        Error::Chat {
            at: self.row.location(),
            column: column.to_owned(),
            problem: Box::new(problem),
        }
    }
}

/// The number of tokens that two sequences begin with alike.
pub(crate) fn shared_tokens(ids: &[u32], other: &[u32]) -> usize {
    ids.iter().zip(other).take_while(|(id, other)| id == other).count()
}
