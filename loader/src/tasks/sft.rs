//! Conversations, prompts with completions, or texts to fine-tune on, as `SFTTrainer` of TRL prepares
//! them.
//!
//! A label stands at its own token; the model shifts labels by one. Tokens that no loss counts have
//! [`IGNORED_LABEL`].

use serde::Serialize;

use super::{Example, Preprocessor, SetContext, token_target_arrays};
use crate::batch::{ArraySpec, POSITIONS, Padding, ROWS};
use crate::chat::{ChatOptions, ChatTemplate, RenderedChat};
use crate::labels::RowLabel;
use crate::source::Row;
use crate::{
    ChatProblem, Encoded, Error, IGNORED_LABEL, Labels, Result, SpannedEncoding, TextTokenizer,
    Value,
};

/// Columns that a row of messages may have besides, under TRL's names.
const TOOLS: &str = "tools";
const VARIABLES: &str = "chat_template_kwargs";

/// The columns and settings of a supervised fine-tuning job. Files with a column of prompts have
/// prompts with completions, files with one of messages have conversations, and others have texts.
#[derive(Clone, Debug, Serialize)]
pub struct Sft {
    pub messages: String,
    pub prompt: String,
    pub completion: String,
    pub text: String,
    pub template: Option<ChatTemplate>,
    /// The text of the token that texts end with. Conversations end as the template has it.
    pub eos_token: Option<String>,
    /// Tokens that rows are cut to, and of a row that texts share.
    pub max_length: u32,
    /// Whether the loss counts the text of the assistant alone.
    pub assistant_only_loss: bool,
    /// Whether the loss counts completions alone, and not their prompts.
    pub completion_only_loss: bool,
    pub packing: Option<PackingStrategy>,
}

/// How texts share rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum PackingStrategy {
    /// Whole texts, each in the row with the least room that is enough. No text sees another.
    Bfd,
    /// Texts end to end, cut into rows. Texts of a row see each other.
    Wrapped,
}

/// The tokens of a row, and those that the loss counts.
struct Counted {
    encoded: Encoded,
    counts: Vec<bool>,
}

impl Preprocessor for Sft {
    /// Files have one of three sets of columns: see [`Preprocessor::columns_among`].
    fn columns(&self) -> Vec<&str> {
        Vec::new()
    }

    fn columns_among(&self, available: &[String]) -> Vec<&str> {
        let has = |column: &&str| available.iter().any(|name| name == column);
        let mut columns = match () {
            () if has(&self.prompt.as_str()) => vec![self.prompt.as_str(), &self.completion],
            () if has(&self.messages.as_str()) => vec![self.messages.as_str()],
            () => return vec![&self.text],
        };
        columns.extend([TOOLS, VARIABLES].iter().filter(|column| has(column)));
        columns
    }

    fn check(&self, _tokenizer: &dyn TextTokenizer) -> Result<()> {
        let Some(template) = self.template.as_ref().filter(|_| self.assistant_only_loss) else {
            return Ok(());
        };
        let message = "data.assistant_only_loss needs {% generation %} around the text of the \
            assistant";
        match template.marks_generation() {
            true => Ok(()),
            false => Err(Error::bad_template(template.file(), message)),
        }
    }

    /// A row without a label makes no example unless it shares its row.
    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let Counted { mut encoded, mut counts } = self.counted(row, context.tokenizer)?;
        let length = self.max_length as usize;
        if self.packing != Some(PackingStrategy::Wrapped) && encoded.input_ids.len() > length {
            encoded.truncated = true;
            encoded.input_ids.truncate(length);
            counts.truncate(length);
        }
        if self.packing.is_none() && !counts.contains(&true) {
            return Ok(Vec::new());
        }
        encoded.token_type_ids = vec![0; encoded.input_ids.len()];
        let targets = encoded.input_ids.iter().zip(&counts);
        let targets = targets.map(|(&id, counts)| if *counts { id as i32 } else { IGNORED_LABEL });
        let label = Some(RowLabel::TokenIds(targets.collect()));
        Ok(vec![Example { encoded, label, ..Example::default() }])
    }

    fn arrays(&self, _labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = token_target_arrays(padding);
        if self.packing == Some(PackingStrategy::Bfd) {
            let sizes = [ROWS, POSITIONS];
            arrays.push(ArraySpec::s32("position_ids", &sizes, 0, |row| row.position_ids()));
        }
        arrays
    }

    fn packing(&self) -> Option<(PackingStrategy, u32)> {
        self.packing.map(|strategy| (strategy, self.max_length))
    }
}

impl Sft {
    fn counted(&self, row: &Row<'_>, tokenizer: &dyn TextTokenizer) -> Result<Counted> {
        if let Some(prompt) = row.find(&self.prompt) {
            return self.completion(row, tokenizer, prompt, row.cell(&self.completion));
        }
        if let Some(messages) = row.find(&self.messages) {
            let messages = conversation(messages).map_err(in_column(row, &self.messages))?;
            let chat = self.chat(row, &self.messages, &messages, self.assistant_only_loss)?;
            return self.of_chat(row, tokenizer, chat);
        }
        if self.assistant_only_loss {
            return Err(in_column(row, &self.text)(ChatProblem::NoMessages));
        }
        let text = self.ended(row.text_or_empty(&self.text)?)?;
        let encoded = encode(row, tokenizer, &text)?;
        let counts = vec![true; encoded.input_ids.len()];
        Ok(Counted { encoded, counts })
    }

    /// A prompt with its completion: both texts, or both lists of messages. The completion begins
    /// where the tokens of the whole and those of the prompt alone part.
    fn completion(
        &self,
        row: &Row<'_>,
        tokenizer: &dyn TextTokenizer,
        prompt: &Value,
        completion: &Value,
    ) -> Result<Counted> {
        let (prompt_ids, mut whole) = match (prompt, completion) {
            (Value::List(_), Value::List(_)) => {
                self.chat_completion(row, tokenizer, prompt, completion)?
            }
            (Value::List(_), _) => {
                return Err(in_column(row, &self.completion)(ChatProblem::Mixed));
            }
            (_, Value::List(_)) => return Err(in_column(row, &self.prompt)(ChatProblem::Mixed)),
            _ => self.text_completion(row, tokenizer)?,
        };
        if self.completion_only_loss {
            let ids = whole.encoded.input_ids.iter().zip(&prompt_ids);
            let shared = ids.take_while(|(id, other)| id == other).count();
            whole.counts[..shared].fill(false);
        }
        Ok(whole)
    }

    /// The tokens of the prompt, and of prompt and completion.
    fn text_completion(
        &self,
        row: &Row<'_>,
        tokenizer: &dyn TextTokenizer,
    ) -> Result<(Vec<u32>, Counted)> {
        if self.assistant_only_loss {
            return Err(in_column(row, &self.completion)(ChatProblem::NoMessages));
        }
        let prompt = row.text_or_empty(&self.prompt)?;
        let completion = self.ended(row.text_or_empty(&self.completion)?)?;
        let encoded = encode(row, tokenizer, &format!("{prompt}{completion}"))?;
        let counts = vec![true; encoded.input_ids.len()];
        Ok((encode(row, tokenizer, prompt)?.input_ids, Counted { encoded, counts }))
    }

    /// The same of conversations.
    fn chat_completion(
        &self,
        row: &Row<'_>,
        tokenizer: &dyn TextTokenizer,
        prompt: &Value,
        completion: &Value,
    ) -> Result<(Vec<u32>, Counted)> {
        let mut messages = conversation(prompt).map_err(in_column(row, &self.prompt))?;
        let template = self.template(row, &self.prompt)?;
        let options = ChatOptions { prompts: true, ..row_options(row) };
        let prompt = template.render(&messages, &options).map_err(in_column(row, &self.prompt))?;
        let prompt = encode_as_it_is(row, tokenizer, &prompt.text)?.encoded.input_ids;
        messages.extend(conversation(completion).map_err(in_column(row, &self.completion))?);
        let chat = self.chat(row, &self.completion, &messages, self.assistant_only_loss)?;
        Ok((prompt, self.of_chat(row, tokenizer, chat)?))
    }

    fn chat(
        &self,
        row: &Row<'_>,
        column: &str,
        messages: &[&Value],
        marks: bool,
    ) -> Result<RenderedChat> {
        let options = ChatOptions { marks, ..row_options(row) };
        let template = self.template(row, column)?;
        template.render(messages, &options).map_err(in_column(row, column))
    }

    fn template(&self, row: &Row<'_>, column: &str) -> Result<&ChatTemplate> {
        self.template.as_ref().ok_or_else(|| in_column(row, column)(ChatProblem::NoTemplate))
    }

    /// The tokens of a rendered conversation.
    fn of_chat(
        &self,
        row: &Row<'_>,
        tokenizer: &dyn TextTokenizer,
        chat: RenderedChat,
    ) -> Result<Counted> {
        let SpannedEncoding { encoded, spans } = encode_as_it_is(row, tokenizer, &chat.text)?;
        if !self.assistant_only_loss {
            let counts = vec![true; encoded.input_ids.len()];
            return Ok(Counted { encoded, counts });
        }
        let counts = chat.generated_tokens(&spans);
        if !counts.contains(&true) {
            return Err(in_column(row, &self.messages)(ChatProblem::NothingGenerated));
        }
        Ok(Counted { encoded, counts })
    }

    /// A text with the token that ends it.
    fn ended(&self, text: &str) -> Result<String> {
        let Some(eos_token) = &self.eos_token else {
            let message =
                "is required, since tokenizer_config.json names no token that ends a text";
            let message = message.to_owned();
            return Err(Error::BadOption { field: "data.eos_token", message });
        };
        Ok(match text.ends_with(eos_token.as_str()) {
            true => text.to_owned(),
            false => format!("{text}{eos_token}"),
        })
    }
}

/// The messages of a cell.
fn conversation(cell: &Value) -> Result<Vec<&Value>, ChatProblem> {
    match cell {
        Value::List(messages) => Ok(messages.iter().collect()),
        other => Err(ChatProblem::NotAConversation { found: other.kind() }),
    }
}

/// What a row gives its template besides messages.
fn row_options<'row>(row: &Row<'row>) -> ChatOptions<'row> {
    let (tools, variables) = (row.find(TOOLS), row.find(VARIABLES));
    ChatOptions { tools, variables, ..ChatOptions::default() }
}

fn in_column<'a>(row: &'a Row<'_>, column: &'a str) -> impl Fn(ChatProblem) -> Error + use<'a> {
    let at = row.location();
    move |problem| Error::Chat {
        at: at.clone(),
        column: column.to_owned(),
        problem: Box::new(problem),
    }
}

fn encode(row: &Row<'_>, tokenizer: &dyn TextTokenizer, text: &str) -> Result<Encoded> {
    let encoded = tokenizer.encode_text(text, false);
    Ok(encoded.map_err(|problem| row.tokenize_error(problem))?.encoded)
}

fn encode_as_it_is(
    row: &Row<'_>,
    tokenizer: &dyn TextTokenizer,
    text: &str,
) -> Result<SpannedEncoding> {
    tokenizer.encode_as_it_is(text).map_err(|problem| row.tokenize_error(problem))
}
