//! Conversations rendered as a whole, whose targets are found turn by turn: axolotl's rule.
//!
//! The tokens of a turn are where two renderings part: the conversation up to it, and the same with
//! another text in its place.

use serde::Serialize;

use super::conversation::{ASSISTANT, Turn};
use super::{RowLayout, Tokens};
use crate::chat::{ChatOptions, RowTexts};
use crate::error::Result;
use crate::source::Value;

/// The text in place of a turn's own. It is axolotl's, since where renderings part depends on it.
const PLACEHOLDER: &str = "[[dummy_message]]";
/// The most tokens between a turn and the token that ends it.
const TOKENS_BETWEEN_MAX: i64 = 3;

/// The turns that are targets.
#[derive(Clone, Debug, Serialize)]
pub struct TurnRule {
    /// The roles whose turns are targets, unless a turn says otherwise.
    pub roles_to_train: Vec<String>,
    /// Whether all turns are targets, unless a turn says otherwise.
    pub train_on_inputs: bool,
    /// The turns whose end-of-text token is a target.
    pub train_on_eos: TrainOn,
    /// The turns whose end-of-turn token is a target.
    pub train_on_eot: TrainOn,
    /// The tokens that end turns; the one that ends texts where none are given.
    pub eot_tokens: Option<Vec<String>>,
}

/// Turns whose last token is a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum TrainOn {
    /// All turns of the conversation.
    All,
    /// The turns that are targets themselves.
    Turn,
    /// The last turn that would otherwise be a target.
    Last,
    /// No turns, which leaves the loss to other rules.
    None,
}

/// A kind of token that ends turns.
struct Ending {
    ids: Vec<u32>,
    train_on: TrainOn,
    last: Option<usize>,
}

/// The tokens of a turn within its conversation.
type Span = Option<(usize, usize)>;

impl TurnRule {
    /// The targets of axolotl's default: the turns of the assistant, with the tokens that end them.
    pub fn of_assistant() -> Self {
        Self {
            roles_to_train: vec![ASSISTANT.to_owned()],
            train_on_inputs: false,
            train_on_eos: TrainOn::Turn,
            train_on_eot: TrainOn::Turn,
            eot_tokens: None,
        }
    }

    pub(super) fn encode(
        &self,
        layout: &RowLayout,
        texts: &RowTexts<'_>,
        turns: &[Turn],
    ) -> Result<Tokens> {
        let rendered = Renderer { texts, column: layout.required(texts), turns };
        let input_ids = rendered.ids(turns.len(), None, None)?;
        let mut tokens = Tokens::default();
        tokens.push(&input_ids, false);
        let mut endings = [
            self.ending(texts, self.eot_texts(texts), self.train_on_eot)?,
            self.ending(texts, texts.eos_token.into_iter().collect(), self.train_on_eos)?,
        ];
        let marks_all = endings.iter().any(|ending| ending.train_on == TrainOn::All);
        for (place, turn) in turns.iter().enumerate() {
            let trains = turn.trains.unwrap_or_else(|| self.trains(layout, turn.role()));
            if !trains && !marks_all {
                continue;
            }
            let span = rendered.span(place)?;
            if let (true, Some((start, end))) = (trains, span) {
                (start..end.min(tokens.labels.len())).for_each(|place| tokens.train_on(place));
            }
            for ending in &mut endings {
                ending.mark(&mut tokens, span, trains);
            }
        }
        for ending in &endings {
            if let (TrainOn::Last, Some(last)) = (ending.train_on, ending.last) {
                tokens.train_on(last);
            }
        }
        Ok(tokens)
    }

    fn trains(&self, layout: &RowLayout, role: &str) -> bool {
        self.train_on_inputs || self.roles_to_train.iter().any(|name| layout.role(name) == role)
    }

    /// The texts of the tokens that end turns; only those that the template writes count.
    fn eot_texts<'a>(&'a self, texts: &RowTexts<'a>) -> Vec<&'a str> {
        let Some(given) = &self.eot_tokens else { return texts.eos_token.into_iter().collect() };
        let is_eos_alone =
            matches!(given.as_slice(), [one] if Some(one.as_str()) == texts.eos_token);
        let is_written =
            |token: &&str| texts.template.is_some_and(|template| template.writes(token));
        let given = given.iter().map(String::as_str);
        given.filter(|token| is_eos_alone || is_written(token)).collect()
    }

    fn ending(&self, texts: &RowTexts<'_>, given: Vec<&str>, train_on: TrainOn) -> Result<Ending> {
        let mut ids = Vec::new();
        for token in given {
            ids.extend(texts.token_id(Some(token))?);
        }
        Ok(Ending { ids, train_on, last: None })
    }
}

impl Ending {
    /// Marks the token that ends a turn, if it stands close behind it.
    fn mark(&mut self, tokens: &mut Tokens, span: Span, trains: bool) {
        let end = span.map_or(-1, |(_, end)| end as i64);
        let Some(place) = self.first(&tokens.input_ids, end) else { return };
        if (place as i64 - end).abs() > TOKENS_BETWEEN_MAX {
            return;
        }
        self.last = Some(place);
        if self.train_on == TrainOn::All || (self.train_on == TrainOn::Turn && trains) {
            tokens.train_on(place);
        }
    }

    /// The first such token from `start` on. A start of -1, that of a turn that was not found, is the
    /// last token of all, as in Python, and finds nothing there.
    fn first(&self, ids: &[u32], start: i64) -> Option<usize> {
        let is_end = |id: &u32| self.ids.contains(id);
        if start < 0 && ids.last().is_some_and(is_end) {
            return None;
        }
        let start = start.max(0) as usize;
        let found = ids.get(start..)?.iter().position(is_end)?;
        Some(start + found)
    }
}

/// Renders the beginnings of a conversation.
struct Renderer<'a> {
    texts: &'a RowTexts<'a>,
    column: &'a str,
    turns: &'a [Turn],
}

impl Renderer<'_> {
    /// The tokens of the first `count` turns, and of one more instead of the last of them.
    fn ids(&self, count: usize, instead: Option<&Turn>, last: Option<u32>) -> Result<Vec<u32>> {
        let own = if instead.is_some() { count - 1 } else { count };
        let turns = self.turns[..own].iter().chain(instead);
        let messages: Vec<&Value> = turns.map(|turn| &turn.message).collect();
        let options = ChatOptions { real_last_index: last, ..ChatOptions::default() };
        let chat = self.texts.render(self.column, &messages, options)?;
        self.texts.ids_as_it_is(&chat.text)
    }

    /// The tokens of a turn; None where its text cannot be told from what surrounds it.
    fn span(&self, place: usize) -> Result<Span> {
        let last = Some((self.turns.len() - 1) as u32).filter(|last| *last > 0);
        let placeholder = Turn::new(self.turns[place].role(), PLACEHOLDER);
        let other = self.ids(place + 1, Some(&placeholder), last)?;
        let full = self.ids(place + 1, None, last)?;
        let Some(start) = full.iter().zip(&other).position(|(id, other)| id != other) else {
            return Ok(None);
        };
        let behind = full.iter().rev().zip(other.iter().rev());
        let end = behind.into_iter().position(|(id, other)| id != other);
        let end = end.map(|behind| full.len() - behind);
        Ok(end.filter(|end| *end > start).map(|end| (start, end)))
    }
}
