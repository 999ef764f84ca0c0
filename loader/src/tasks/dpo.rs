//! Prompts with a completion that was chosen and one that was rejected, as `DPOTrainer` of TRL prepares
//! them.
//!
//! An example is the prompt with the chosen completion, and as its target the prompt with the rejected
//! one. Labels stand at the tokens of completions; the model shifts them by one.

use serde::Serialize;

use super::{Example, LeftOut, Preprocessor, SetContext, token_target_arrays};
use crate::batch::{ArraySpec, Padding};
use crate::chat::{ChatOptions, ChatTemplate, RowTexts, shared_tokens, template_columns};
use crate::error::{ChatProblem, Result};
use crate::labels::{IGNORED_LABEL, Labels, RowLabel};
use crate::layouts::{Answered, Layouts};
use crate::source::{Row, Value};
use crate::tokenize::{Encoded, TextTokenizer};

/// The columns and settings of direct preference optimization. In files without a column of prompts, a
/// prompt is what both completions begin with.
#[derive(Clone, Debug, Serialize)]
pub struct Dpo {
    /// The column of prompts, which files may lack.
    pub prompt: String,
    /// The column of preferred answers.
    pub chosen: String,
    /// The column of rejected answers.
    pub rejected: String,
    /// The template of conversations; without one, all columns have texts.
    pub template: Option<ChatTemplate>,
    /// The text of the token that texts end with. Conversations end as the template has it.
    pub eos_token: Option<String>,
    /// The layout of rows in columns other than these.
    pub layouts: Option<Layouts>,
    /// Tokens that prompt and completion together are cut to.
    pub max_length: u32,
}

/// The tokens of a pair.
pub(super) struct Pair {
    pub(super) prompt: Vec<u32>,
    /// The tokens behind the prompt, whose tokens are in it.
    pub(super) chosen: Vec<u32>,
    pub(super) rejected: Vec<u32>,
}

/// The texts of a pair.
pub(super) struct PairTexts {
    /// A conversation without its answer ends with what invites one.
    pub(super) prompt: String,
    /// The prompt with the chosen and with the rejected completion.
    pub(super) wholes: [String; 2],
    pub(super) is_chat: bool,
}

impl Preprocessor for Dpo {
    fn columns(&self) -> Vec<&str> {
        vec![&self.chosen, &self.rejected]
    }

    fn columns_of_set(&self, set: usize, available: &[String]) -> Vec<&str> {
        let Some(layouts) = &self.layouts else { return self.columns_among(available) };
        layouts.columns(set, available).into_iter().chain(template_columns(available)).collect()
    }

    fn columns_among(&self, available: &[String]) -> Vec<&str> {
        let prompt = available.contains(&self.prompt).then_some(self.prompt.as_str());
        self.columns().into_iter().chain(prompt).chain(template_columns(available)).collect()
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        self.layouts.as_ref().map_or(Ok(()), |layouts| layouts.check(tokenizer))
    }

    /// Encodes a row. One whose prompt alone fills `max_length` makes no example.
    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let pair = self.pair(&self.row_texts(row, context))?;
        Ok(pair.and_then(|pair| self.example(pair)).into_iter().collect())
    }

    fn arrays(&self, _labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        token_target_arrays(padding)
    }

    fn sequences_per_row(&self) -> usize {
        2
    }

    fn why_left_out(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Option<LeftOut>> {
        let lacks_turns =
            self.layouts.is_some() && self.pair(&self.row_texts(row, context))?.is_none();
        Ok(Some(if lacks_turns { LeftOut::NoTurns } else { LeftOut::TooLong }))
    }
}

impl Dpo {
    pub(super) fn row_texts<'a>(
        &'a self,
        row: &'a Row<'a>,
        context: &'a SetContext<'_>,
    ) -> RowTexts<'a> {
        RowTexts {
            row,
            tokenizer: context.tokenizer,
            template: self.template.as_ref(),
            eos_token: self.eos_token.as_deref(),
        }
    }

    /// The example of a pair; None where the prompt alone fills `max_length`.
    pub(super) fn example(&self, pair: Pair) -> Option<Example> {
        let Pair { prompt, mut chosen, mut rejected } = pair;
        let shared = [&chosen, &rejected].map(|ids| shared_tokens(&prompt, ids));
        let (prompt_length, length) = (shared[0].min(shared[1]), self.max_length as usize);
        if prompt_length >= length {
            return None;
        }
        let truncated = chosen.len().max(rejected.len()) > length;
        chosen.truncate(length);
        rejected.truncate(length);
        Some(example_of([(chosen, prompt_length), (rejected, prompt_length)], truncated))
    }

    /// The tokens of a pair; None for rows that a layout leaves out.
    pub(super) fn pair(&self, texts: &RowTexts<'_>) -> Result<Option<Pair>> {
        let Some(layouts) = &self.layouts else {
            return self.texts(texts)?.pair(texts).map(Some);
        };
        let Some(Answered { prompt, wholes }) = layouts.pair(texts, self.max_length)? else {
            return Ok(None);
        };
        let mut wholes = wholes.into_iter();
        let pair = wholes.next().zip(wholes.next());
        Ok(pair.map(|(chosen, rejected)| Pair { prompt, chosen, rejected }))
    }

    /// The texts of a pair in the columns of the task.
    pub(super) fn texts(&self, texts: &RowTexts<'_>) -> Result<PairTexts> {
        let row = texts.row;
        let prompt = row.find(&self.prompt);
        let cells = [&self.chosen, &self.rejected].map(|column| row.cell(column));
        match (prompt.and_then(messages), messages(cells[0]), messages(cells[1])) {
            (Some(prompt), Some(chosen), Some(rejected)) => {
                self.chats(texts, prompt, [chosen, rejected])
            }
            // A single message is an answer, of which no turn can be the prompt.
            (None, Some(_), Some(_))
                if prompt.is_some() && matches!(cells[0], Value::Struct(_)) =>
            {
                Err(texts.problem(&self.prompt, ChatProblem::Mixed))
            }
            // Some data sets repeat as text the prompt with which their conversations begin.
            (None, Some(chosen), Some(rejected)) => {
                let turns = shared_turns(chosen, rejected);
                self.chats(texts, &chosen[..turns], [&chosen[turns..], &rejected[turns..]])
            }
            (_, Some(_), None) => Err(texts.problem(&self.rejected, ChatProblem::Mixed)),
            (_, None, Some(_)) | (Some(_), None, None) => {
                Err(texts.problem(&self.chosen, ChatProblem::Mixed))
            }
            (None, None, None) => self.plain_texts(row),
        }
    }

    fn plain_texts(&self, row: &Row<'_>) -> Result<PairTexts> {
        let [chosen, rejected] =
            [row.text_or_empty(&self.chosen)?, row.text_or_empty(&self.rejected)?];
        let (prompt, completions) = match row.find(&self.prompt) {
            Some(_) => (row.text_or_empty(&self.prompt)?, [chosen, rejected]),
            None => {
                let (prompt, chosen) = chosen.split_at(shared_bytes(chosen, rejected));
                (prompt, [chosen, &rejected[prompt.len()..]])
            }
        };
        let wholes = completions.map(|completion| format!("{prompt}{completion}"));
        Ok(PairTexts { prompt: prompt.to_owned(), wholes, is_chat: false })
    }

    fn chats(
        &self,
        texts: &RowTexts<'_>,
        prompt: &[Value],
        completions: [&[Value]; 2],
    ) -> Result<PairTexts> {
        let [chosen, rejected] = completions;
        Ok(PairTexts {
            prompt: chat_text(texts, &self.prompt, prompt, None)?,
            wholes: [
                chat_text(texts, &self.chosen, prompt, Some(chosen))?,
                chat_text(texts, &self.rejected, prompt, Some(rejected))?,
            ],
            is_chat: true,
        })
    }
}

impl PairTexts {
    fn pair(&self, texts: &RowTexts<'_>) -> Result<Pair> {
        let [chosen, rejected] = self.wholes(texts)?;
        let prompt = match self.is_chat {
            true => texts.ids_as_it_is(&self.prompt)?,
            false => texts.encode(&self.prompt)?.input_ids,
        };
        Ok(Pair { prompt, chosen, rejected })
    }

    /// The tokens of the prompt with each completion. Texts that are no conversations end with the token for that.
    pub(super) fn wholes(&self, texts: &RowTexts<'_>) -> Result<[Vec<u32>; 2]> {
        let ids = |whole: &str| -> Result<Vec<u32>> {
            if self.is_chat {
                return texts.ids_as_it_is(whole);
            }
            let completion = texts.ended(&whole[self.prompt.len()..])?;
            Ok(texts.encode(&format!("{}{completion}", self.prompt))?.input_ids)
        };
        Ok([ids(&self.wholes[0])?, ids(&self.wholes[1])?])
    }
}

/// The text of a prompt's messages with those of its completion, or else with what invites one.
pub(super) fn chat_text(
    texts: &RowTexts<'_>,
    column: &str,
    prompt: &[Value],
    completion: Option<&[Value]>,
) -> Result<String> {
    let messages: Vec<&Value> = prompt.iter().chain(completion.unwrap_or_default()).collect();
    let options = ChatOptions { prompts: completion.is_none(), ..ChatOptions::default() };
    Ok(texts.render(column, &messages, options)?.text)
}

/// The messages of a cell, which may be one message by itself.
fn messages(cell: &Value) -> Option<&[Value]> {
    match cell {
        Value::List(messages) => Some(messages),
        Value::Struct(_) => Some(std::slice::from_ref(cell)),
        _ => None,
    }
}

/// The messages with which two conversations begin: all but the last of the shorter where it is the
/// beginning of the other.
fn shared_turns(chosen: &[Value], rejected: &[Value]) -> usize {
    let shorter = chosen.len().min(rejected.len());
    let differs = chosen.iter().zip(rejected).position(|(one, other)| one != other);
    differs.unwrap_or(shorter.saturating_sub(1))
}

/// The bytes with which two texts begin, without a space at their end: all but the last character of
/// the shorter where it is the beginning of the other.
fn shared_bytes(chosen: &str, rejected: &str) -> usize {
    let mut last = 0;
    for ((at, one), other) in chosen.char_indices().zip(rejected.chars()) {
        if one != other {
            return chosen[..at].strip_suffix(' ').map_or(at, str::len);
        }
        last = at;
    }
    last
}

/// The example of a chosen and a rejected sequence, each with the tokens of its prompt.
pub(super) fn example_of(pair: [(Vec<u32>, usize); 2], truncated: bool) -> Example {
    let labels = pair.each_ref().map(|(ids, prompt)| completion_labels(ids, *prompt));
    let [(chosen, _), (rejected, _)] = pair;
    let encoded = Encoded { truncated, ..Encoded::of_one_text(chosen) };
    let label = Some(RowLabel::TokenIds(labels.concat()));
    Example { encoded, label, target: Some(rejected), ..Example::default() }
}

/// The label of each token behind the prompt.
pub(crate) fn completion_labels(ids: &[u32], prompt_length: usize) -> Vec<i32> {
    let label = |(at, &id)| if at < prompt_length { IGNORED_LABEL } else { id as i32 };
    ids.iter().enumerate().map(label).collect()
}
