//! Conversations, prompts with completions, or texts to fine-tune on, as `SFTTrainer` of TRL prepares
//! them.
//!
//! A label stands at its own token; the model shifts labels by one. Tokens that no loss counts have
//! [`IGNORED_LABEL`].

use serde::Serialize;

use super::{Example, LeftOut, Preprocessor, SetContext, token_target_arrays};
use crate::batch::{ArraySpec, POSITIONS, Padding, ROWS};
use crate::chat::{
    ChatOptions, ChatTemplate, RenderedChat, RowTexts, shared_tokens, template_columns,
};
use crate::error::{ChatProblem, Error, Result};
use crate::labels::{IGNORED_LABEL, Labels, RowLabel};
use crate::layouts::{Encoding as LayoutEncoding, Layouts, Tokens as LaidOut};
use crate::source::{Row, Value};
use crate::tokenize::{Encoded, SpannedEncoding, TextTokenizer};

/// The columns and settings of a supervised fine-tuning job. Files with a column of prompts have
/// prompts with completions, files with one of messages have conversations, and others have texts.
#[derive(Clone, Debug, Serialize)]
pub struct Sft {
    /// The column of conversations.
    pub messages: String,
    /// The column of prompts, beside that of completions.
    pub prompt: String,
    /// The column of completions.
    pub completion: String,
    /// The column of texts to continue.
    pub text: String,
    /// The template of conversations; without one, rows have texts.
    pub template: Option<ChatTemplate>,
    /// The text of the token that texts end with. Conversations end as the template has it.
    pub eos_token: Option<String>,
    /// Tokens that rows are cut to, and of a row that texts share.
    pub max_length: u32,
    /// Whether the loss counts the text of the assistant alone.
    pub assistant_only_loss: bool,
    /// Whether the loss counts completions alone, and not their prompts; None counts them alone where
    /// files have a column of prompts and one of completions.
    pub completion_only_loss: Option<bool>,
    /// The way rows are put together into longer ones; None keeps each by itself.
    pub packing: Option<PackingStrategy>,
    /// The layout of rows in columns other than these.
    pub layouts: Option<Layouts>,
    /// Whether batches have the position of each token in its text.
    pub position_ids: bool,
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

    fn columns_of_set(&self, set: usize, available: &[String]) -> Vec<&str> {
        let Some(layouts) = &self.layouts else { return self.columns_among(available) };
        layouts.columns(set, available).into_iter().chain(template_columns(available)).collect()
    }

    fn columns_among(&self, available: &[String]) -> Vec<&str> {
        let has = |column: &&str| available.iter().any(|name| name == column);
        let mut columns = match () {
            () if has(&self.prompt.as_str()) => vec![self.prompt.as_str(), &self.completion],
            () if has(&self.messages.as_str()) => vec![self.messages.as_str()],
            () => return vec![&self.text],
        };
        columns.extend(template_columns(available));
        columns
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        self.layouts.as_ref().map_or(Ok(()), |layouts| layouts.check(tokenizer))?;
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
        let drops_long_rows = self.layouts.as_ref().is_some_and(|it| it.drops_long_rows);
        let rows = self.rows(&self.row_texts(row, context), self.max_length)?;
        Ok(rows.into_iter().filter_map(|row| self.example(row, drops_long_rows)).collect())
    }

    fn arrays(&self, _labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = token_target_arrays(padding);
        if self.position_ids {
            let sizes = [ROWS, POSITIONS];
            arrays.push(ArraySpec::s32("position_ids", &sizes, 0, |row| row.position_ids()));
        }
        arrays
    }

    fn packing(&self) -> Option<(PackingStrategy, u32)> {
        self.packing.map(|strategy| (strategy, self.max_length))
    }

    fn why_left_out(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Option<LeftOut>> {
        let rows = self.rows(&self.row_texts(row, context), u32::MAX)?;
        let encoding = self.layouts.as_ref().map(|layouts| &layouts.encoding);
        let needs_turns = matches!(encoding, Some(LayoutEncoding::Pieces(_)));
        Ok(Some(match rows.iter().any(LaidOut::has_target) {
            true => LeftOut::TooLong,
            false if rows.is_empty() && needs_turns => LeftOut::NoTurns,
            false => LeftOut::NoTarget,
        }))
    }
}

impl Sft {
    fn row_texts<'a>(&'a self, row: &'a Row<'_>, context: &'a SetContext<'_>) -> RowTexts<'a> {
        RowTexts {
            row,
            tokenizer: context.tokenizer,
            template: self.template.as_ref(),
            eos_token: self.eos_token.as_deref(),
        }
    }

    /// The tokens of a row with their targets; layouts make as many rows of it as `max_length` asks for, or none.
    fn rows(&self, texts: &RowTexts<'_>, max_length: u32) -> Result<Vec<LaidOut>> {
        let counted = match &self.layouts {
            None => self.counted(texts)?,
            // TRL's rules apply to these.
            Some(layouts)
                if matches!(layouts.encoding, LayoutEncoding::Template)
                    && layouts.are_messages(texts) =>
            {
                let messages = layouts.messages(texts)?;
                let column = layouts.column(texts);
                self.chat(texts, column, &messages.iter().collect::<Vec<_>>())?
            }
            Some(layouts) => return layouts.examples(texts, max_length),
        };
        Ok(vec![counted.with_targets()])
    }

    /// The example of tokens with their targets; None where no token is one, or where the row is too
    /// long and such rows are left out.
    pub(super) fn example(&self, row: LaidOut, drops_long_rows: bool) -> Option<Example> {
        let LaidOut { mut input_ids, mut labels } = row;
        let length = self.max_length as usize;
        let mut truncated = false;
        if self.packing != Some(PackingStrategy::Wrapped) && input_ids.len() > length {
            if drops_long_rows {
                return None;
            }
            truncated = true;
            input_ids.truncate(length);
            labels.truncate(length);
        }
        if self.packing.is_none() && labels.iter().all(|label| *label == IGNORED_LABEL) {
            return None;
        }
        let encoded = Encoded { truncated, ..Encoded::of_one_text(input_ids) };
        Some(Example { encoded, label: Some(RowLabel::TokenIds(labels)), ..Example::default() })
    }

    fn counted(&self, texts: &RowTexts<'_>) -> Result<Counted> {
        let row = texts.row;
        if let Some(prompt) = row.find(&self.prompt) {
            return self.completion(texts, prompt, row.cell(&self.completion));
        }
        if let Some(messages) = row.find(&self.messages) {
            let messages = texts.conversation(&self.messages, messages)?;
            return self.chat(texts, &self.messages, &messages);
        }
        if self.assistant_only_loss {
            return Err(texts.problem(&self.text, ChatProblem::NoMessages));
        }
        let text = texts.ended(row.text_or_empty(&self.text)?)?;
        Ok(Counted::whole(texts.encode(&text)?))
    }

    /// A prompt with its completion: both texts, or both lists of messages. The completion begins
    /// where the tokens of the whole and those of the prompt alone part.
    fn completion(
        &self,
        texts: &RowTexts<'_>,
        prompt: &Value,
        completion: &Value,
    ) -> Result<Counted> {
        let (prompt_ids, mut whole) = match (prompt, completion) {
            (Value::List(_), Value::List(_)) => self.chat_completion(texts, prompt, completion)?,
            (Value::List(_), _) => {
                return Err(texts.problem(&self.completion, ChatProblem::Mixed));
            }
            (_, Value::List(_)) => return Err(texts.problem(&self.prompt, ChatProblem::Mixed)),
            _ => self.text_completion(texts)?,
        };
        if self.completion_only_loss.unwrap_or(true) {
            let shared = shared_tokens(&whole.encoded.input_ids, &prompt_ids);
            whole.counts[..shared].fill(false);
        }
        Ok(whole)
    }

    /// The tokens of the prompt, and of prompt and completion.
    fn text_completion(&self, texts: &RowTexts<'_>) -> Result<(Vec<u32>, Counted)> {
        if self.assistant_only_loss {
            return Err(texts.problem(&self.completion, ChatProblem::NoMessages));
        }
        let prompt = texts.row.text_or_empty(&self.prompt)?;
        let completion = texts.ended(texts.row.text_or_empty(&self.completion)?)?;
        let whole = Counted::whole(texts.encode(&format!("{prompt}{completion}"))?);
        Ok((texts.encode(prompt)?.input_ids, whole))
    }

    /// The tokens of a conversation's prompt, and of prompt and completion.
    fn chat_completion(
        &self,
        texts: &RowTexts<'_>,
        prompt: &Value,
        completion: &Value,
    ) -> Result<(Vec<u32>, Counted)> {
        let mut messages = texts.conversation(&self.prompt, prompt)?;
        let options = ChatOptions { prompts: true, ..ChatOptions::default() };
        let prompt = texts.render(&self.prompt, &messages, options)?;
        let prompt = texts.ids_as_it_is(&prompt.text)?;
        messages.extend(texts.conversation(&self.completion, completion)?);
        Ok((prompt, self.chat(texts, &self.completion, &messages)?))
    }

    /// The tokens of a conversation.
    fn chat(&self, texts: &RowTexts<'_>, column: &str, messages: &[&Value]) -> Result<Counted> {
        let marks = self.assistant_only_loss;
        let options = ChatOptions { marks, ..ChatOptions::default() };
        let chat: RenderedChat = texts.render(column, messages, options)?;
        let SpannedEncoding { encoded, spans } = texts.encode_as_it_is(&chat.text)?;
        if !marks {
            return Ok(Counted::whole(encoded));
        }
        let counts = chat.generated_tokens(&spans);
        if !counts.contains(&true) {
            return Err(texts.problem(&self.messages, ChatProblem::NothingGenerated));
        }
        Ok(Counted { encoded, counts })
    }
}

impl Counted {
    /// The tokens, each with its target.
    fn with_targets(self) -> LaidOut {
        let input_ids = self.encoded.input_ids;
        let label = |(id, counts): (&u32, &bool)| if *counts { *id as i32 } else { IGNORED_LABEL };
        LaidOut { labels: input_ids.iter().zip(&self.counts).map(label).collect(), input_ids }
    }

    /// Tokens all of which count.
    fn whole(encoded: Encoded) -> Counted {
        Counted { counts: vec![true; encoded.input_ids.len()], encoded }
    }
}
