//! A template of turns: the texts and tokens around the content of each.

use super::thoughts::Thoughts;

/// The texts and tokens around each turn of a conversation.
#[derive(Debug)]
pub(super) struct TurnTemplate {
    pub(super) name: &'static str,
    pub(super) prefix: &'static [Slot],
    pub(super) system: &'static [Slot],
    pub(super) user: &'static [Slot],
    pub(super) assistant: &'static [Slot],
    /// The slots of a tool's answer, where they differ from the user's.
    pub(super) observation: Option<&'static [Slot]>,
    pub(super) default_system: &'static str,
    /// The token that ends texts, where it is not the tokenizer's.
    pub(super) eos_token: Option<&'static str>,
    /// Whether the token that ends texts stands once, at the end, rather than behind each answer; the
    /// first token behind an answer is then the target in its place.
    pub(super) efficient_eos: bool,
    /// Whether the system's text is part of the first question.
    pub(super) system_in_question: bool,
    /// The words around thoughts, for models that think.
    pub(super) thoughts: Option<Thoughts>,
}

/// A part of a turn, which is tokenized by itself.
#[derive(Clone, Copy, Debug)]
pub(super) enum Slot {
    /// A text with the content in place of `{}`.
    Text(&'static str),
    /// The token that texts begin with, if the tokenizer has one.
    Bos,
    /// The token that ends texts.
    Eos,
}

impl TurnTemplate {
    /// The system's text within the first question.
    pub(super) fn system_text(&self, system: &str) -> String {
        match self.system {
            [Slot::Text(text), ..] => text.replacen("{}", system, 1),
            _ => system.to_owned(),
        }
    }
}

const CONTENT: &[Slot] = &[Slot::Text("{}")];
const ENDED: &[Slot] = &[Slot::Text("{}"), Slot::Eos];

/// A template that has nothing but contents and the token that ends answers.
pub(super) const PLAIN: TurnTemplate = TurnTemplate {
    name: "",
    prefix: &[],
    system: CONTENT,
    user: CONTENT,
    assistant: ENDED,
    observation: None,
    default_system: "",
    eos_token: None,
    efficient_eos: false,
    system_in_question: false,
    thoughts: None,
};
