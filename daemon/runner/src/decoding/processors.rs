//! Changes to the scores of the next token, as transformers' `LogitsProcessor`s make them, in their
//! order.

use super::settings::GenerationSettings;

/// The text so far, to which a token is added.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextSoFar<'a> {
    /// The prompt of the decoder and the tokens behind it.
    pub tokens: &'a [u32],
    /// The number of tokens in the prompt.
    pub prompt: usize,
    /// The most tokens that the whole may have.
    pub max_length: usize,
}

/// Changes the scores of all tokens of the vocabulary.
pub(super) fn process(settings: &GenerationSettings, text: TextSoFar<'_>, scores: &mut [f32]) {
    let length = text.tokens.len();
    if settings.repetition_penalty != 1.0 {
        penalize_repetition(text.tokens, settings.repetition_penalty as f32, scores);
    }
    if settings.no_repeat_ngram_size > 0 {
        ban_repeated_ngrams(text.tokens, settings.no_repeat_ngram_size, scores);
    }
    let is_short = length < settings.min_length || length - text.prompt < settings.min_new_tokens;
    if is_short {
        suppress(&settings.eos_token_ids, scores);
    }
    if let Some(bos) = settings.forced_bos_token_id.filter(|_| length == 1) {
        force(&[bos], scores);
    }
    if !settings.forced_eos_token_ids.is_empty() && length + 1 == text.max_length {
        force(&settings.forced_eos_token_ids, scores);
    }
    suppress(&settings.suppress_tokens, scores);
    let is_forced = text.prompt == 1 && settings.forced_bos_token_id.is_some();
    if length == text.prompt + usize::from(is_forced) {
        suppress(&settings.begin_suppress_tokens, scores);
    }
}

/// Divides the scores of tokens that stand in the text, or multiplies them where negative.
fn penalize_repetition(tokens: &[u32], penalty: f32, scores: &mut [f32]) {
    let mut seen: Vec<usize> = tokens.iter().map(|token| *token as usize).collect();
    seen.sort_unstable();
    seen.dedup();
    for token in seen {
        if let Some(score) = scores.get_mut(token) {
            *score = if *score < 0.0 { *score * penalty } else { *score / penalty };
        }
    }
}

/// Bans each token that would end a run of `size` tokens which the text already has.
fn ban_repeated_ngrams(tokens: &[u32], size: usize, scores: &mut [f32]) {
    if tokens.len() < size {
        return;
    }
    let prefix = &tokens[tokens.len() + 1 - size..];
    let repeated = tokens.windows(size).filter(|window| window[..size - 1] == *prefix);
    let banned: Vec<u32> = repeated.map(|window| window[size - 1]).collect();
    suppress(&banned, scores);
}

fn suppress(tokens: &[u32], scores: &mut [f32]) {
    for token in tokens {
        if let Some(score) = scores.get_mut(*token as usize) {
            *score = f32::NEG_INFINITY;
        }
    }
}

/// Leaves no other tokens than these.
fn force(tokens: &[u32], scores: &mut [f32]) {
    scores.fill(f32::NEG_INFINITY);
    for token in tokens {
        if let Some(score) = scores.get_mut(*token as usize) {
            *score = 0.0;
        }
    }
}
