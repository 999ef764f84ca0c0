//! Start and end logits of a question's windows to its answer, as `postprocess_qa_predictions` of
//! transformers' example scripts.

use std::cmp::Ordering;

use super::Question;
use crate::tasks::NOT_IN_CONTEXT;

/// Limits on the answers that are considered.
#[derive(Clone, Debug, PartialEq)]
pub struct AnswerOptions {
    /// The starts, ends and answers to consider.
    pub n_best_size: usize,
    /// The longest answer, in tokens.
    pub max_answer_length: usize,
    /// True if questions may have no answer (`version_2_with_negative`).
    pub version_2_with_negative: bool,
    /// No answer is given where its score exceeds the best answer's by more than this.
    pub null_score_diff_threshold: f32,
}

impl Default for AnswerOptions {
    fn default() -> Self {
        Self {
            n_best_size: 20,
            max_answer_length: 30,
            version_2_with_negative: false,
            null_score_diff_threshold: 0.0,
        }
    }
}

/// The model's logits for one window. Logits beyond the window's tokens are ignored.
#[derive(Clone, Copy, Debug)]
pub struct WindowLogits<'set> {
    /// [`crate::TokenizedSet::context_offsets`] of the window.
    pub context_offsets: &'set [[u32; 2]],
    /// The score of each token as an answer's start.
    pub start_logits: &'set [f32],
    /// The score of each token as an answer's end.
    pub end_logits: &'set [f32],
}

/// One possible answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// Empty is "no answer".
    pub text: String,
    /// Its first character in the context, and the one behind its last; both 0 for "no
    /// answer".
    pub start: u32,
    /// The character behind its last in the context.
    pub end: u32,
    /// The score of its first token.
    pub start_logit: f32,
    /// The score of its last token.
    pub end_logit: f32,
    /// The probability among the candidates of the question.
    pub probability: f64,
}

/// The answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction {
    /// The best answer; empty where the question has none.
    pub text: String,
    /// Best first.
    pub n_best: Vec<Candidate>,
    /// The score of "no answer" minus that of the best answer; None if every question has one.
    pub null_score_diff: Option<f32>,
}

impl Prediction {
    /// The candidate that was given as the answer; `None` for "no answer".
    pub fn given(&self) -> Option<&Candidate> {
        let mut candidates = self.n_best.iter().filter(|candidate| !candidate.text.is_empty());
        candidates.find(|candidate| candidate.text == self.text)
    }
}

#[derive(Clone, Copy, Debug)]
struct Span {
    offsets: [u32; 2],
    start_logit: f32,
    end_logit: f32,
}

impl Span {
    fn score(&self) -> f32 {
        self.start_logit + self.end_logit
    }
}

/// Answers one question from all of its windows.
pub fn predict(
    question: &Question,
    windows: &[WindowLogits<'_>],
    options: &AnswerOptions,
) -> Prediction {
    let mut spans: Vec<Span> =
        windows.iter().flat_map(|window| spans_of(window, options)).collect();
    let null = windows.iter().filter_map(null_span).min_by(by_score);
    let null = null.filter(|_| options.version_2_with_negative);
    spans.extend(null);
    // Stable, so that of equals the one found first stays first.
    spans.sort_by(|one, other| by_score(other, one));
    spans.truncate(options.n_best_size);
    if spans.iter().all(|span| span.offsets != [0, 0]) {
        spans.extend(null);
    }
    let n_best = candidates(&question.context, &spans);
    let answer = n_best.iter().find(|candidate| !candidate.text.is_empty());
    let difference =
        null.zip(answer).map(|(null, answer)| null.score() - answer.start_logit - answer.end_logit);
    let text = match (difference, answer) {
        (None, _) => n_best.first().map(|best| best.text.clone()),
        (Some(difference), _) if difference > options.null_score_diff_threshold => None,
        (Some(_), answer) => answer.map(|answer| answer.text.clone()),
    };
    Prediction { text: text.unwrap_or_default(), n_best, null_score_diff: difference }
}

/// The spans of the context between the likeliest starts and the likeliest ends.
fn spans_of(window: &WindowLogits<'_>, options: &AnswerOptions) -> Vec<Span> {
    let tokens = window.context_offsets.len();
    let starts = likeliest(window.start_logits, tokens, options.n_best_size);
    let ends = likeliest(window.end_logits, tokens, options.n_best_size);
    let pairs = starts.iter().flat_map(|&start| ends.iter().map(move |&end| (start, end)));
    let fits = |&(start, end): &(usize, usize)| {
        let in_context = |token: usize| window.context_offsets[token] != NOT_IN_CONTEXT;
        in_context(start)
            && in_context(end)
            && start <= end
            && end - start < options.max_answer_length
    };
    let span = |(start, end): (usize, usize)| Span {
        offsets: [window.context_offsets[start][0], window.context_offsets[end][1]],
        start_logit: window.start_logits[start],
        end_logit: window.end_logits[end],
    };
    pairs.filter(fits).map(span).collect()
}

fn likeliest(logits: &[f32], tokens: usize, count: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..tokens.min(logits.len())).collect();
    places.sort_by(|&one, &other| logits[other].total_cmp(&logits[one]));
    places.truncate(count);
    places
}

/// "No answer", which the window's first token stands for.
fn null_span(window: &WindowLogits<'_>) -> Option<Span> {
    let (start, end) = (window.start_logits.first()?, window.end_logits.first()?);
    Some(Span { offsets: [0, 0], start_logit: *start, end_logit: *end })
}

fn by_score(one: &Span, other: &Span) -> Ordering {
    one.score().total_cmp(&other.score())
}

fn candidates(context: &str, spans: &[Span]) -> Vec<Candidate> {
    let ends: Vec<usize> =
        context.char_indices().map(|(byte, _)| byte).chain([context.len()]).collect();
    let text = |[start, end]: [u32; 2]| {
        let byte = |place: u32| ends.get(place as usize).copied().unwrap_or(context.len());
        context.get(byte(start)..byte(end)).unwrap_or_default().to_owned()
    };
    let mut candidates: Vec<Candidate> = spans
        .iter()
        .map(|span| Candidate {
            text: text(span.offsets),
            start: span.offsets[0],
            end: span.offsets[1],
            start_logit: span.start_logit,
            end_logit: span.end_logit,
            probability: 0.0,
        })
        .collect();
    if candidates.len() < 2 && candidates.iter().all(|candidate| candidate.text.is_empty()) {
        // As the script: something must be there to compare "no answer" with.
        let text = "empty".to_owned();
        let empty = Candidate {
            text,
            start: 0,
            end: 0,
            start_logit: 0.0,
            end_logit: 0.0,
            probability: 0.0,
        };
        candidates.insert(0, empty);
    }
    with_probabilities(candidates)
}

fn with_probabilities(mut candidates: Vec<Candidate>) -> Vec<Candidate> {
    let score = |candidate: &Candidate| f64::from(candidate.start_logit + candidate.end_logit);
    let best = candidates.iter().map(score).fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = candidates.iter().map(|candidate| (score(candidate) - best).exp()).sum();
    for candidate in &mut candidates {
        candidate.probability = (score(candidate) - best).exp() / total;
    }
    candidates
}
