//! Beam search for one row, as transformers' `_beam_search` computes it: several texts are continued
//! side by side, and the best finished ones are kept. Scores are float32, as there.
//!
//! k beams, V vocabulary.

use super::settings::{EarlyStopping, GenerationSettings};

/// The number that is added to scores that must not be chosen.
const EXCLUDED: f32 = -1.0e9;

/// The beams of a row.
#[derive(Clone, Debug)]
pub(super) struct BeamSearch {
    rules: Rules,
    running: Vec<Running>,
    kept: Vec<Kept>,
    /// Whether a running text may still become better than those that are kept.
    can_improve: bool,
    is_done: bool,
}

/// The settings of a search.
#[derive(Clone, Debug)]
struct Rules {
    eos_token_ids: Vec<u32>,
    early_stopping: EarlyStopping,
    length_penalty: f64,
    prompt: usize,
    max_length: usize,
}

/// A text that is continued.
#[derive(Clone, Debug)]
struct Running {
    tokens: Vec<u32>,
    score: f32,
    /// The beam of the step before that it continues.
    origin: usize,
}

/// A text that is kept; those that have not ended hold the place of others.
#[derive(Clone, Debug)]
struct Kept {
    tokens: Vec<u32>,
    score: f32,
    has_ended: bool,
}

/// A continuation of a beam by one token.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    beam: usize,
    token: u32,
    score: f32,
}

impl BeamSearch {
    pub(super) fn new(
        settings: &GenerationSettings,
        prompt: &[u32],
        max_length: usize,
    ) -> BeamSearch {
        let beams = settings.num_beams;
        // The beams are equal at first: all but one are excluded.
        let running = (0..beams).map(|beam| Running {
            tokens: prompt.to_vec(),
            score: if beam == 0 { 0.0 } else { EXCLUDED },
            origin: beam,
        });
        let kept = Kept { tokens: prompt.to_vec(), score: EXCLUDED, has_ended: false };
        BeamSearch {
            rules: Rules {
                eos_token_ids: settings.eos_token_ids.clone(),
                early_stopping: settings.early_stopping,
                length_penalty: settings.length_penalty,
                prompt: prompt.len(),
                max_length,
            },
            running: running.collect(),
            kept: vec![kept; beams],
            can_improve: true,
            is_done: false,
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.is_done
    }

    /// The texts that are continued.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u32]> {
        self.running.iter().map(|beam| beam.tokens.as_slice())
    }

    /// Each beam's last token, and the beam of the step before that it continues.
    pub(super) fn next_inputs(&self) -> impl Iterator<Item = (u32, usize)> {
        self.running.iter().map(|beam| (beam.tokens.last().copied().unwrap_or(0), beam.origin))
    }

    /// The best text, with its prompt.
    pub(super) fn into_text(self) -> Vec<u32> {
        self.kept.into_iter().next().map(|kept| kept.tokens).unwrap_or_default()
    }

    /// Takes a step by the processed logarithms of the next token's probabilities, `[k V]`.
    pub(super) fn advance(&mut self, log_probabilities: &[f32]) {
        let beams = self.running.len();
        let candidates = self.candidates(log_probabilities);
        let ends: Vec<bool> = candidates.iter().map(|it| self.ends(it)).collect();
        let length = self.running[0].tokens.len() + 1;
        let continued = self.continued(&candidates, &ends, beams);
        self.keep(&candidates, &ends, length);
        self.running = continued;
        let best = self.running[0].score / self.rules.divisor(self.rules.best_length(length));
        let worst = self.kept.iter().map(|kept| kept.score).fold(f32::INFINITY, f32::min);
        let bound = |kept: &Kept| if kept.has_ended { worst } else { EXCLUDED };
        self.can_improve &= self.kept.iter().any(|kept| best > bound(kept));
        self.is_done = !self.can_improve || self.is_full() || ends.iter().all(|end| *end);
    }

    /// The best continuations of all beams, best first: so many that enough of them do not end.
    fn candidates(&self, log_probabilities: &[f32]) -> Vec<Candidate> {
        let beams = self.running.len();
        let count = beams * (1 + self.rules.eos_token_ids.len()).max(2);
        let vocabulary = log_probabilities.len() / beams;
        let mut best: Vec<Candidate> = Vec::with_capacity(count + 1);
        for (beam, running) in self.running.iter().enumerate() {
            let scores = &log_probabilities[beam * vocabulary..(beam + 1) * vocabulary];
            for (token, log_probability) in scores.iter().enumerate() {
                let score = log_probability + running.score;
                if best.len() == count && best[count - 1].score >= score {
                    continue;
                }
                let place = best.partition_point(|other| other.score >= score);
                best.insert(place, Candidate { beam, token: token as u32, score });
                best.truncate(count);
            }
        }
        best
    }

    fn ends(&self, candidate: &Candidate) -> bool {
        self.rules.eos_token_ids.contains(&candidate.token)
            || self.running[candidate.beam].tokens.len() + 1 >= self.rules.max_length
    }

    /// The best candidates that do not end.
    fn continued(&self, candidates: &[Candidate], ends: &[bool], beams: usize) -> Vec<Running> {
        let score =
            |index: usize| candidates[index].score + if ends[index] { EXCLUDED } else { 0.0 };
        let best = largest((0..candidates.len()).map(score), beams);
        let continued = best.into_iter().map(|index| Running {
            tokens: self.text_of(&candidates[index]),
            score: score(index),
            origin: candidates[index].beam,
        });
        continued.collect()
    }

    fn text_of(&self, candidate: &Candidate) -> Vec<u32> {
        [&self.running[candidate.beam].tokens[..], &[candidate.token]].concat()
    }

    /// Keeps the best of the texts that are kept and of those that end. Only the best `k` candidates
    /// may end: the others are a reserve to continue.
    fn keep(&mut self, candidates: &[Candidate], ends: &[bool], length: usize) {
        let (beams, divisor) = (self.kept.len(), self.rules.divisor(length - self.rules.prompt));
        let (is_full, can_improve) = (self.is_full(), self.can_improve);
        let has_ended = |index: usize| ends[index] && index < beams;
        let score = |index: usize| {
            let mut score = candidates[index].score / divisor;
            for is_excluded in [is_full, !can_improve, !has_ended(index)] {
                score += if is_excluded { EXCLUDED } else { 0.0 };
            }
            score
        };
        let scores = self.kept.iter().map(|kept| kept.score);
        let best = largest(scores.chain((0..candidates.len()).map(score)), beams);
        let kept = best.into_iter().map(|place| match place.checked_sub(beams) {
            None => self.kept[place].clone(),
            Some(index) => Kept {
                tokens: self.text_of(&candidates[index]),
                score: score(index),
                has_ended: has_ended(index),
            },
        });
        self.kept = kept.collect();
    }

    /// Whether there are as many ended texts as beams, and more are not wanted.
    fn is_full(&self) -> bool {
        self.rules.early_stopping == EarlyStopping::Full
            && self.kept.iter().all(|kept| kept.has_ended)
    }
}

impl Rules {
    /// The number of new tokens by which the best score of running texts is estimated.
    fn best_length(&self, length: usize) -> usize {
        let is_longest = self.early_stopping == EarlyStopping::Never && self.length_penalty > 0.0;
        if is_longest { self.max_length - self.prompt } else { length - self.prompt }
    }

    /// The divisor of the score of a text of so many new tokens.
    fn divisor(&self, new_tokens: usize) -> f32 {
        (new_tokens as f64).powf(self.length_penalty) as f32
    }
}

/// The places of the `count` largest scores, the largest first; of equals, the first.
fn largest(scores: impl Iterator<Item = f32>, count: usize) -> Vec<usize> {
    let scores: Vec<f32> = scores.collect();
    let mut places: Vec<usize> = (0..scores.len()).collect();
    places.sort_by(|a, b| scores[*b].total_cmp(&scores[*a]));
    places.truncate(count);
    places
}
