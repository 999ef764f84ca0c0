//! Conversations whose turns are tokenized one by one and put end to end: LLaMA-Factory's rule.
//!
//! A question and its answer are a pair. Targets are the answers; rows that are too long lose the ends
//! of questions and answers in proportion to their lengths, and then whole pairs.

mod encoder;
mod table;
mod template;
mod thoughts;

use serde::Serialize;

use super::conversation::{ASSISTANT, SYSTEM, Turn, USER};
use super::pairs::Answered;
use super::{RowLayout, Tokens};
use crate::chat::RowTexts;
use crate::error::{Error, Result};
use crate::tokenize::{SpannedEncoding, TextTokenizer};
use encoder::Pieces;
use template::TurnTemplate;
use thoughts::Thoughts;

const FIELD: &str = "data.template";
const OBSERVATION: &str = "observation";
const FUNCTION: &str = "function";

/// The template of turns, and the turns that are targets.
#[derive(Clone, Debug, Serialize)]
pub struct PieceRule {
    /// A name of LLaMA-Factory's `template`.
    pub template: String,
    /// Whether questions are targets too (`train_on_prompt`).
    pub train_on_inputs: bool,
    /// Whether the last answer alone is a target, and the first pairs are those that long rows lose.
    pub mask_history: bool,
    /// Whether answers without a thought begin with an empty one as a target, for models that think.
    pub enable_thinking: bool,
    /// The system's text of rows without one, in place of the template's.
    pub default_system: Option<String>,
}

/// The names of all templates.
pub fn turn_template_names() -> impl Iterator<Item = &'static str> {
    table::TEMPLATES.iter().map(|template| template.name)
}

/// The tokens of a question and its answer.
struct Exchange {
    question: Vec<u32>,
    answer: Vec<u32>,
}

impl PieceRule {
    pub(super) fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        let template = self.template()?;
        check_eos_token(template, tokenizer)?;
        match self.train_on_inputs && template.efficient_eos {
            true => Err(Error::BadOption {
                field: "data.train_on_inputs",
                message: format!("cannot be true with data.template: {}", self.template),
            }),
            false => Ok(()),
        }
    }

    fn template(&self) -> Result<&'static TurnTemplate> {
        let known = table::TEMPLATES.iter().find(|template| template.name == self.template);
        known.ok_or_else(|| {
            let names: Vec<&str> = turn_template_names().collect();
            let message =
                format!("there is no template `{}`; there are {}", self.template, names.join(", "));
            Error::BadOption { field: FIELD, message }
        })
    }

    fn pieces<'a>(
        &self,
        layout: &'a RowLayout,
        texts: &'a RowTexts<'a>,
        bos_token: Option<&'a str>,
    ) -> Result<Pieces<'a>> {
        Ok(Pieces { template: self.template()?, texts, bos_token, column: layout.required(texts) })
    }

    /// The tokens of a conversation; None where questions and answers do not alternate, which
    /// LLaMA-Factory leaves out.
    pub(super) fn encode(
        &self,
        layout: &RowLayout,
        texts: &RowTexts<'_>,
        bos_token: Option<&str>,
        max_length: u32,
    ) -> Result<Option<Tokens>> {
        let pieces = self.pieces(layout, texts, bos_token)?;
        let (system, turns) = without_system(layout.conversation(texts)?);
        if turns.is_empty() || turns.len() % 2 == 1 || !alternates(&turns) {
            return Ok(None);
        }
        let mut exchanges = self.exchanges(&pieces, system, turns)?;
        if self.mask_history {
            exchanges.reverse();
        }
        self.joined(&pieces, exchanges, max_length as usize).map(Some)
    }

    /// The tokens of the pairs, as many as there is room for.
    fn joined(
        &self,
        pieces: &Pieces<'_>,
        exchanges: Vec<Exchange>,
        max_length: usize,
    ) -> Result<Tokens> {
        let ends = pieces.template.efficient_eos;
        let eos = pieces.eos()?;
        let mut total = usize::from(ends);
        let mut parts: Vec<Tokens> = Vec::new();
        for (place, Exchange { mut question, mut answer }) in exchanges.into_iter().enumerate() {
            if total >= max_length {
                break;
            }
            let lengths = lengths_within(question.len(), answer.len(), max_length - total);
            question.truncate(lengths.0);
            answer.truncate(lengths.1);
            total += question.len() + answer.len();
            let mut part = Tokens::default();
            part.push(&question, self.train_on_inputs);
            if ends && place > 0 && !self.train_on_inputs {
                part.end_before(eos);
            }
            part.push(&answer, !(self.mask_history && place > 0));
            parts.push(part);
        }
        if self.mask_history {
            parts.reverse();
        }
        let mut tokens = Tokens::default();
        for part in parts {
            tokens.input_ids.extend(part.input_ids);
            tokens.labels.extend(part.labels);
        }
        if ends {
            tokens.push(&eos.into_iter().collect::<Vec<_>>(), true);
        }
        Ok(tokens)
    }

    /// The tokens of the pairs, with thoughts where the template has them.
    fn exchanges(
        &self,
        pieces: &Pieces<'_>,
        system: String,
        mut turns: Vec<Turn>,
    ) -> Result<Vec<Exchange>> {
        let thoughts = pieces.template.thoughts.as_ref();
        if let Some(thoughts) = thoughts {
            self.remove_thoughts(thoughts, &mut turns);
        }
        let mut encoded = pieces.turns(&self.system(pieces, system), &turns)?;
        if let Some(thoughts) = thoughts {
            let empty = pieces.encode(&thoughts.empty())?;
            self.add_absent_thoughts(thoughts, &empty, &turns, &mut encoded);
        }
        let mut encoded = encoded.into_iter();
        let mut exchanges = Vec::new();
        while let (Some(question), Some(answer)) = (encoded.next(), encoded.next()) {
            exchanges.push(Exchange { question, answer });
        }
        Ok(exchanges)
    }

    /// Removes the thoughts of answers that are to have none.
    fn remove_thoughts(&self, thoughts: &Thoughts, turns: &mut [Turn]) {
        let last = turns.len() - 2;
        for (place, turn) in turns.iter_mut().enumerate().filter(|(place, _)| place % 2 == 1) {
            let is_earlier = place < last;
            if !self.enable_thinking || (self.mask_history && is_earlier) {
                thoughts.remove(turn);
            }
        }
    }

    /// Adds the tokens `empty` of no thoughts to answers without thoughts, or where the model is not to think, to the
    /// questions before them.
    fn add_absent_thoughts(
        &self,
        thoughts: &Thoughts,
        empty: &[u32],
        turns: &[Turn],
        encoded: &mut [Vec<u32>],
    ) {
        let first = if self.mask_history { turns.len() - 2 } else { 0 };
        for place in (first..turns.len()).step_by(2) {
            if !thoughts.are_absent_in(&turns[place + 1]) {
                continue;
            }
            match self.enable_thinking {
                true => encoded[place + 1].splice(0..0, empty.iter().copied()).for_each(drop),
                false => encoded[place].extend(empty),
            }
        }
    }

    fn system(&self, pieces: &Pieces<'_>, system: String) -> String {
        match system.as_str() {
            "" => {
                self.default_system.clone().unwrap_or_else(|| pieces.template.default_system.into())
            }
            _ => system,
        }
    }

    /// The tokens of a prompt and of answers to it, which are cut alike; None where questions and answers do not
    /// alternate.
    pub(super) fn answered(
        &self,
        layout: &RowLayout,
        texts: &RowTexts<'_>,
        bos_token: Option<&str>,
        prompt: Vec<Turn>,
        answers: Vec<Turn>,
        max_length: u32,
    ) -> Result<Option<Answered>> {
        let pieces = self.pieces(layout, texts, bos_token)?;
        let (system, turns) = without_system(prompt);
        if turns.len() % 2 == 0 || !alternates(&turns) {
            return Ok(None);
        }
        let eos = if pieces.template.efficient_eos { pieces.eos()? } else { None };
        let (mut prompt, mut encoded) = (None, Vec::new());
        for answer in answers {
            let turns = turns.iter().cloned().chain([answer]).collect();
            let (before, mut answer) = self.one_turn(&pieces, system.clone(), turns)?;
            answer.extend(eos);
            prompt.get_or_insert(before);
            encoded.push(answer);
        }
        let Some(mut prompt) = prompt else { return Ok(None) };
        let longest = encoded.iter().map(Vec::len).max().unwrap_or_default();
        let lengths = lengths_within(prompt.len(), longest, max_length as usize);
        prompt.truncate(lengths.0);
        let wholes = encoded.into_iter().map(|mut answer| {
            answer.truncate(lengths.1);
            [prompt.as_slice(), &answer].concat()
        });
        let wholes = wholes.collect();
        Ok(Some(Answered { prompt, wholes }))
    }

    /// The tokens of all turns but the last, and of the last.
    fn one_turn(
        &self,
        pieces: &Pieces<'_>,
        system: String,
        mut turns: Vec<Turn>,
    ) -> Result<(Vec<u32>, Vec<u32>)> {
        let thoughts = pieces.template.thoughts.as_ref();
        let last = turns.len() - 1;
        if let Some(thoughts) = thoughts {
            for (place, turn) in turns.iter_mut().enumerate().filter(|(place, _)| place % 2 == 1) {
                if place < last || !self.enable_thinking {
                    thoughts.remove(turn);
                }
            }
        }
        let mut encoded = pieces.turns(&self.system(pieces, system), &turns)?;
        let mut answer = encoded.pop().unwrap_or_default();
        let mut prompt = encoded.concat();
        if let Some(thoughts) = thoughts.filter(|thoughts| thoughts.are_absent_in(&turns[last])) {
            let empty = pieces.encode(&thoughts.empty())?;
            match self.enable_thinking {
                true => answer.splice(0..0, empty).for_each(drop),
                false => prompt.extend(empty),
            }
        }
        Ok((prompt, answer))
    }
}

impl Tokens {
    /// Makes the token that ends texts the target in place of the first token of a question, where an
    /// answer ends.
    fn end_before(&mut self, eos: Option<u32>) {
        if let (Some(first), Some(eos)) = (self.labels.first_mut(), eos) {
            *first = eos as i32;
        }
    }
}

/// Some templates have a token of their own that ends texts, which the tokenizer must know.
fn check_eos_token(template: &TurnTemplate, tokenizer: &dyn TextTokenizer) -> Result<()> {
    let Some(own) = template.eos_token else { return Ok(()) };
    let is_one = |it: SpannedEncoding| it.encoded.input_ids.len() == 1;
    match tokenizer.encode_as_it_is(own).is_ok_and(is_one) {
        true => Ok(()),
        false => {
            let message = format!(
                "ends turns with {own}, which is not a token of this tokenizer; add it by \
                 model.add_special_tokens, or take another template"
            );
            Err(Error::BadOption { field: FIELD, message })
        }
    }
}

/// Takes the system's text out of a conversation.
fn without_system(mut turns: Vec<Turn>) -> (String, Vec<Turn>) {
    match turns.first() {
        Some(first) if first.role() == SYSTEM => {
            let first = turns.remove(0);
            (first.content().to_owned(), turns)
        }
        _ => (String::new(), turns),
    }
}

/// Returns true if questions and answers take turns, a question first.
fn alternates(turns: &[Turn]) -> bool {
    turns.iter().enumerate().all(|(place, turn)| match place % 2 {
        0 => [USER, OBSERVATION].contains(&turn.role()),
        _ => [ASSISTANT, FUNCTION].contains(&turn.role()),
    })
}

/// The lengths that a question and its answer are cut to so that both fit `room`.
fn lengths_within(question: usize, answer: usize, room: usize) -> (usize, usize) {
    let answer_max = if answer * 2 < room {
        room
    } else if question * 2 < room {
        room - question
    } else {
        (room as f64 * (answer as f64 / (question + answer) as f64)) as usize
    };
    let answer = answer.min(answer_max);
    (question.min(room.saturating_sub(answer)), answer)
}
