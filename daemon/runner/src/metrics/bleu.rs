//! BLEU (Papineni et al., 2002) of a corpus as `sacrebleu` computes it by default: the tokenizer `13a`,
//! n-grams up to four words and exponential smoothing.

use std::collections::HashMap;

use super::Metrics;

const SIZE_MAX: usize = 4;

/// Returns `bleu`, a percentage, for pairs of a prediction and its reference.
pub(crate) fn bleu<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Metrics {
    let mut totals = Totals::default();
    pairs.into_iter().for_each(|(prediction, reference)| totals.add(prediction, reference));
    Metrics::from([("bleu".to_owned(), totals.score())])
}

/// The counts of all pairs.
#[derive(Default)]
struct Totals {
    /// The predicted n-grams of each size that stand in references.
    correct: [usize; SIZE_MAX],
    predicted: [usize; SIZE_MAX],
    prediction_words: usize,
    reference_words: usize,
}

impl Totals {
    fn add(&mut self, prediction: &str, reference: &str) {
        let (predicted, expected) = (words(prediction), words(reference));
        for size in 1..=SIZE_MAX {
            let (found, right) = (counts(&predicted, size), counts(&expected, size));
            let correct = found
                .iter()
                .map(|(ngram, count)| (*count).min(right.get(ngram).copied().unwrap_or(0)));
            self.correct[size - 1] += correct.sum::<usize>();
            self.predicted[size - 1] += found.values().sum::<usize>();
        }
        self.prediction_words += predicted.len();
        self.reference_words += expected.len();
    }

    fn score(&self) -> f64 {
        if self.correct.iter().all(|correct| *correct == 0) || self.predicted.contains(&0) {
            return 0.0;
        }
        let mut smoothing = 1.0;
        let counts = self.correct.iter().zip(&self.predicted);
        let precisions = counts.map(|(correct, predicted)| {
            let correct = match correct {
                0 => {
                    smoothing *= 2.0;
                    1.0 / smoothing
                }
                correct => *correct as f64,
            };
            (100.0 * correct / *predicted as f64).ln()
        });
        (precisions.sum::<f64>() / SIZE_MAX as f64).exp() * self.brevity_penalty()
    }

    fn brevity_penalty(&self) -> f64 {
        let (prediction, reference) = (self.prediction_words as f64, self.reference_words as f64);
        if prediction < reference { (1.0 - reference / prediction).exp() } else { 1.0 }
    }
}

fn counts(words: &[String], size: usize) -> HashMap<&[String], usize> {
    let mut counts = HashMap::new();
    words.windows(size).for_each(|ngram| *counts.entry(ngram).or_default() += 1);
    counts
}

/// The words of a text by the tokenizer `13a`.
fn words(text: &str) -> Vec<String> {
    let text = text.trim_end().replace("<skipped>", "").replace("-\n", "").replace('\n', " ");
    let entities = [("&quot;", "\""), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">")];
    let text = entities.iter().fold(text, |text, (from, to)| text.replace(from, to));
    let mut apart = String::with_capacity(2 * text.len());
    for letter in format!(" {text} ").chars() {
        match is_symbol(letter) {
            true => apart.extend([' ', letter, ' ']),
            false => apart.push(letter),
        }
    }
    let apart = split_before_points(&apart);
    let apart = split_behind_points(&apart);
    split_dashes(&apart).split_whitespace().map(str::to_owned).collect()
}

/// ASCII punctuation that is always a word of its own.
fn is_symbol(letter: char) -> bool {
    matches!(letter, '{'..='~' | '['..='`' | ' '..='&' | '('..='+' | ':'..='@' | '/')
}

fn is_point(letter: char) -> bool {
    matches!(letter, '.' | ',')
}

/// Sets a point or comma apart that stands behind no digit.
fn split_before_points(text: &str) -> String {
    pairs_apart(text, |a, b| (!a.is_ascii_digit() && is_point(b)).then_some([a, ' ', b, ' ']))
}

/// Sets a point or comma apart that stands before no digit.
fn split_behind_points(text: &str) -> String {
    pairs_apart(text, |a, b| (is_point(a) && !b.is_ascii_digit()).then_some([' ', a, ' ', b]))
}

/// Sets a dash apart that stands behind a digit.
fn split_dashes(text: &str) -> String {
    pairs_apart(text, |a, b| (a.is_ascii_digit() && b == '-').then_some([a, ' ', b, ' ']))
}

/// Replaces pairs of letters from left to right. A pair begins behind the one that was replaced last.
fn pairs_apart(text: &str, replace: impl Fn(char, char) -> Option<[char; 4]>) -> String {
    let letters: Vec<char> = text.chars().collect();
    let mut result = String::with_capacity(2 * text.len());
    let mut place = 0;
    while let Some(&letter) = letters.get(place) {
        let next = letters.get(place + 1);
        match next.and_then(|next| replace(letter, *next)) {
            Some(apart) => {
                result.extend(apart);
                place += 2;
            }
            None => {
                result.push(letter);
                place += 1;
            }
        }
    }
    result
}
