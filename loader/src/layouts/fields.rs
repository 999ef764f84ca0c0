//! The columns and fields of a layout.

use serde::Serialize;

use crate::chat::RowTexts;
use crate::error::Result;
use crate::source::{Row, Value};

/// The layout of the rows of a set.
#[derive(Clone, Debug, Serialize)]
pub struct RowLayout {
    /// The form of a row.
    pub format: RowFormat,
    /// The names of its columns.
    pub fields: RowFields,
    /// Names of roles in the data, each with the role that it stands for.
    pub roles: Vec<(String, String)>,
    /// Fields of a template's messages, each with the field of the data that holds it.
    pub message_fields: Vec<(String, String)>,
    /// The field of a message that says whether its text is a target: true or false, or a weight of
    /// 0 or 1.
    pub training: Vec<String>,
    /// Leaves out a first message of the system.
    pub drops_system: bool,
}

/// How a row holds its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum RowFormat {
    /// An instruction, with or without an input, and its output.
    Alpaca,
    /// A list of messages.
    Conversation,
    /// A text.
    Completion,
    /// Token ids, with or without labels.
    Pretokenized,
}

/// The columns that hold each part of a row; one without a name is not read.
#[derive(Clone, Debug, Serialize)]
pub struct RowFields {
    /// The column of instructions.
    pub instruction: String,
    /// The column of what an instruction applies to.
    pub input: String,
    /// The column of answers.
    pub output: String,
    /// Earlier turns: a list of pairs of a question and its answer.
    pub history: String,
    /// The column of system prompts.
    pub system: String,
    /// The column of conversations.
    pub messages: String,
    /// The column of messages in files that have no `messages`.
    pub other_messages: Option<String>,
    /// The column of texts to continue.
    pub text: String,
    /// The column of preferred answers.
    pub chosen: String,
    /// The column of rejected answers.
    pub rejected: String,
}

/// Columns of tokenized rows, under the names of transformers.
pub(super) const INPUT_IDS: &str = "input_ids";
pub(super) const LABELS: &str = "labels";
const TOOLS: &str = "tools";

impl RowLayout {
    /// The columns that it reads, of those that are `available`.
    pub(super) fn columns<'a>(&'a self, available: &[String]) -> Vec<&'a str> {
        let fields = &self.fields;
        let columns: &[&'a str] = match self.format {
            RowFormat::Alpaca => &[
                &fields.instruction,
                &fields.input,
                &fields.output,
                &fields.history,
                &fields.system,
                &fields.chosen,
                &fields.rejected,
                TOOLS,
            ],
            RowFormat::Conversation => &[&fields.system, &fields.chosen, &fields.rejected, TOOLS],
            RowFormat::Completion => &[&fields.text],
            RowFormat::Pretokenized => &[INPUT_IDS, LABELS],
        };
        let is_there = |column: &&str| available.iter().any(|name| name == column);
        let required = self.required_among(|column| is_there(&column));
        let optional = columns.iter().copied().filter(is_there);
        optional.chain([required]).collect()
    }

    /// The column that a row cannot do without.
    pub(super) fn required(&self, texts: &RowTexts<'_>) -> &str {
        self.required_of(texts.row)
    }

    /// The column that a row cannot do without, for a row whose texts are not read yet.
    pub(crate) fn required_of(&self, row: &Row<'_>) -> &str {
        self.required_among(|column| row.find(column).is_some())
    }

    /// The column of the answer, where it is one of its own.
    pub(crate) fn answer(&self) -> Option<&str> {
        (self.format == RowFormat::Alpaca).then_some(self.fields.output.as_str())
    }

    /// The column that no row can do without, for files of whose columns `has` knows.
    fn required_among(&self, has: impl Fn(&str) -> bool) -> &str {
        match self.format {
            RowFormat::Alpaca => &self.fields.instruction,
            RowFormat::Conversation => match &self.fields.other_messages {
                Some(other) if has(other) && !has(&self.fields.messages) => other,
                _ => &self.fields.messages,
            },
            RowFormat::Completion => &self.fields.text,
            RowFormat::Pretokenized => INPUT_IDS,
        }
    }

    /// The text of a column that rows may lack.
    pub(super) fn text<'a>(&self, texts: &RowTexts<'a>, column: &str) -> Result<&'a str> {
        match texts.row.find(column) {
            Some(_) => texts.row.text_or_empty(column),
            None => Ok(""),
        }
    }

    /// The role that a name in the data stands for.
    pub(super) fn role<'a>(&'a self, name: &'a str) -> &'a str {
        let known = self.roles.iter().find(|(data, _)| data == name);
        known.map_or(name, |(_, role)| role)
    }

    /// Whether the text of a message is a target, if the message says so.
    pub(super) fn trains(&self, message: &[(String, Value)]) -> Option<bool> {
        let fields = self.training.iter().filter_map(|name| {
            message.iter().find(|(field, _)| field == name).map(|(_, value)| value)
        });
        fields.into_iter().find_map(|value| match value {
            Value::Bool(trains) => Some(*trains),
            Value::Int(weight) => Some(*weight != 0),
            Value::Float(weight) => Some(*weight != 0.0),
            _ => None,
        })
    }
}
