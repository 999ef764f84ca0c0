//! Layouts of rows that fine-tuning data come in, and how tokens and targets are made of them.
//!
//! A layout says which columns hold a conversation; an encoding says how it becomes tokens: by a chat
//! template with axolotl's rule for targets, by prompts of instructions as axolotl's `alpaca` types, or
//! turn by turn as LLaMA-Factory.

mod conversation;
mod fields;
mod format_text;
mod instructions;
mod pairs;
mod pieces;
mod texts;
mod turns;

use serde::Serialize;

pub use fields::{RowFields, RowFormat, RowLayout};
pub use instructions::{PromptFormat, PromptStyle};
pub(crate) use pairs::Answered;
pub use pieces::{PieceRule, turn_template_names};
pub use turns::{TrainOn, TurnRule};

use crate::chat::RowTexts;
use crate::error::{Error, Result};
use crate::labels::IGNORED_LABEL;
use crate::source::Value;
use crate::tokenize::TextTokenizer;

/// How rows become tokens with targets.
#[derive(Clone, Debug, Serialize)]
pub struct Layouts {
    /// One for each set of files, in their order; the last one also serves all further sets.
    pub layouts: Vec<RowLayout>,
    /// The way from a row to tokens.
    pub encoding: Encoding,
    /// The text of the token that texts begin with, if the tokenizer has one.
    pub bos_token: Option<String>,
    /// Leaves out rows that are longer than `max_length` rather than cutting them.
    pub drops_long_rows: bool,
}

/// How a conversation becomes tokens.
#[derive(Clone, Debug, Serialize)]
pub enum Encoding {
    /// Rendered by the chat template as a whole; targets by TRL's rules.
    Template,
    /// Rendered by the chat template as a whole; targets by turn, as axolotl.
    Turns(TurnRule),
    /// A prompt made of instruction and input, and the answer, as axolotl's `alpaca` types.
    Instructions {
        /// The words of prompts.
        prompts: PromptFormat,
        /// Whether the loss counts prompts too.
        train_on_inputs: bool,
    },
    /// Turns that are tokenized one by one, as LLaMA-Factory.
    Pieces(PieceRule),
}

/// The tokens of a row with their targets, each [`IGNORED_LABEL`] or in most rows the token itself.
#[derive(Default)]
pub(crate) struct Tokens {
    pub(crate) input_ids: Vec<u32>,
    pub(crate) labels: Vec<i32>,
}

impl Tokens {
    /// Appends tokens that are all targets, or none of which is one.
    fn push(&mut self, ids: &[u32], are_targets: bool) {
        self.input_ids.extend(ids);
        let label = |id: &u32| if are_targets { *id as i32 } else { IGNORED_LABEL };
        self.labels.extend(ids.iter().map(label));
    }

    /// Returns true if the loss counts a token.
    pub(crate) fn has_target(&self) -> bool {
        self.labels.iter().any(|label| *label != IGNORED_LABEL)
    }

    /// Makes a token its own target.
    fn train_on(&mut self, place: usize) {
        self.labels[place] = self.input_ids[place] as i32;
    }
}

impl Layouts {
    /// The layout of the rows of a set.
    pub(crate) fn of_set(&self, set: usize) -> &RowLayout {
        &self.layouts[set.min(self.layouts.len() - 1)]
    }

    /// The columns that the rows of a set are read from, of those that are `available`.
    pub(crate) fn columns<'a>(&'a self, set: usize, available: &[String]) -> Vec<&'a str> {
        self.of_set(set).columns(available)
    }

    /// Returns true if the row is a conversation.
    pub(crate) fn are_messages(&self, texts: &RowTexts<'_>) -> bool {
        let format = self.of_set(texts.row.set).format;
        matches!(format, RowFormat::Alpaca | RowFormat::Conversation)
    }

    /// The messages of a row.
    pub(crate) fn messages(&self, texts: &RowTexts<'_>) -> Result<Vec<Value>> {
        let turns = self.of_set(texts.row.set).conversation(texts)?;
        Ok(turns.into_iter().map(|turn| turn.message).collect())
    }

    /// The column that a row's texts are in, for errors.
    pub(crate) fn column(&self, texts: &RowTexts<'_>) -> &str {
        self.of_set(texts.row.set).required(texts)
    }

    /// Fails where the settings cannot work, whatever the rows are.
    pub(crate) fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        match &self.encoding {
            Encoding::Instructions { prompts, .. } => prompts.check(),
            Encoding::Pieces(rule) => rule.check(tokenizer),
            Encoding::Template | Encoding::Turns(_) => Ok(()),
        }
    }

    /// The tokens of a row for fine-tuning, one example or several; none for rows that the tools leave
    /// out.
    pub(crate) fn examples(&self, texts: &RowTexts<'_>, max_length: u32) -> Result<Vec<Tokens>> {
        let layout = self.of_set(texts.row.set);
        match (layout.format, &self.encoding) {
            (RowFormat::Completion, _) => texts::completion(layout, texts, max_length),
            (RowFormat::Pretokenized, _) => Ok(vec![texts::pretokenized(texts)?]),
            (RowFormat::Alpaca, Encoding::Instructions { prompts, train_on_inputs }) => {
                let bos_token = self.bos_token.as_deref();
                let row = prompts.encode(layout, texts, bos_token, max_length, *train_on_inputs)?;
                Ok(vec![row])
            }
            (_, Encoding::Turns(rule)) => {
                Ok(vec![rule.encode(layout, texts, &layout.conversation(texts)?)?])
            }
            (_, Encoding::Pieces(rule)) => {
                let bos_token = self.bos_token.as_deref();
                let row = rule.encode(layout, texts, bos_token, max_length)?;
                Ok(row.into_iter().collect())
            }
            (_, Encoding::Template | Encoding::Instructions { .. }) => Err(Error::BadOption {
                field: "data.format",
                message: "needs a chat template for this layout".to_owned(),
            }),
        }
    }
}
