//! The text of one row while it is generated: chosen greedily, drawn, or searched for by beams.

use super::beams::BeamSearch;
use super::processors::{TextSoFar, process};
use super::sampling::{Draw, draw};
use super::settings::GenerationSettings;

/// The row of a batch.
#[derive(Clone, Debug)]
pub(super) struct RowSearch {
    prompt: usize,
    max_length: usize,
    /// Identifies the row in draws.
    row: u64,
    seed: u64,
    state: State,
}

#[derive(Clone, Debug)]
enum State {
    /// One text, and whether it has ended.
    Text {
        tokens: Vec<u32>,
        has_ended: bool,
    },
    Beams(BeamSearch),
}

/// The identity of a row, and its first tokens.
#[derive(Clone, Debug)]
pub(super) struct Start<'a> {
    pub prompt: &'a [u32],
    pub max_length: usize,
    pub row: u64,
    pub seed: u64,
}

impl RowSearch {
    pub(super) fn new(settings: &GenerationSettings, start: &Start<'_>) -> RowSearch {
        let &Start { prompt, max_length, row, seed } = start;
        let state = match settings.num_beams {
            1 => State::Text { tokens: prompt.to_vec(), has_ended: false },
            _ => State::Beams(BeamSearch::new(settings, prompt, max_length)),
        };
        RowSearch { prompt: prompt.len(), max_length, row, seed, state }
    }

    pub(super) fn is_done(&self) -> bool {
        match &self.state {
            State::Text { has_ended, .. } => *has_ended,
            State::Beams(beams) => beams.is_done(),
        }
    }

    /// The number of tokens in each beam.
    pub(super) fn len(&self) -> usize {
        self.texts().first().map_or(0, |text| text.len())
    }

    /// The tokens of each beam up to now.
    pub(super) fn texts(&self) -> Vec<&[u32]> {
        match &self.state {
            State::Text { tokens, .. } => vec![tokens],
            State::Beams(beams) => beams.texts().collect(),
        }
    }

    /// The last token of each beam, and the beam of the step before that it continues.
    pub(super) fn next_inputs(&self) -> Vec<(u32, usize)> {
        match &self.state {
            State::Text { tokens, .. } => vec![(tokens.last().copied().unwrap_or(0), 0)],
            State::Beams(beams) => beams.next_inputs().collect(),
        }
    }

    /// Adds a token by the scores of the vocabulary for each beam: logits, or with several beams
    /// logarithms of probabilities.
    pub(super) fn advance(&mut self, settings: &GenerationSettings, scores: &mut [f32]) {
        if self.is_done() {
            return;
        }
        let (prompt, max_length) = (self.prompt, self.max_length);
        let so_far = |tokens| TextSoFar { tokens, prompt, max_length };
        match &mut self.state {
            State::Text { tokens, has_ended } => {
                process(settings, so_far(tokens), scores);
                let at = Draw { seed: self.seed, row: self.row, position: tokens.len() as u64 };
                let token = match &settings.sampling {
                    Some(sampling) => draw(sampling, scores, at),
                    None => argmax(scores),
                };
                tokens.push(token);
                *has_ended = settings.eos_token_ids.contains(&token) || tokens.len() >= max_length;
            }
            State::Beams(beams) => {
                let vocabulary = scores.len() / settings.num_beams;
                for (text, scores) in beams.texts().zip(scores.chunks_mut(vocabulary)) {
                    process(settings, so_far(text), scores);
                }
                beams.advance(scores);
            }
        }
    }

    /// The generated tokens, without the prompt.
    pub(super) fn into_tokens(self) -> Vec<u32> {
        let mut tokens = match self.state {
            State::Text { tokens, .. } => tokens,
            State::Beams(beams) => beams.into_text(),
        };
        tokens.drain(..self.prompt.min(tokens.len()));
        tokens
    }
}

/// The token with the largest score; the first of equals.
fn argmax(scores: &[f32]) -> u32 {
    let mut best = 0;
    for (token, score) in scores.iter().enumerate() {
        if *score > scores[best] {
            best = token;
        }
    }
    best as u32
}
