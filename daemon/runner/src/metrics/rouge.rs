//! ROUGE (Lin, 2004) as `rouge_score` computes it with its stemmer, which transformers' example of
//! summarization asks for: the F-measures of n-grams and of longest common subsequences.

use std::collections::{BTreeSet, HashMap};

use super::Metrics;
use super::stemmer::stem;

/// Returns `rouge1`, `rouge2`, `rougeL` and `rougeLsum` as percentages: the means over pairs of a
/// prediction and its reference. Lines are the sentences of `rougeLsum`.
pub(crate) fn rouge<'a>(pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> Metrics {
    let (mut sums, mut count) = ([0.0; 4], 0.0);
    for (prediction, reference) in pairs {
        let scores = [
            of_ngrams(prediction, reference, 1),
            of_ngrams(prediction, reference, 2),
            of_subsequence(prediction, reference),
            of_sentences(prediction, reference),
        ];
        sums.iter_mut().zip(scores).for_each(|(sum, score)| *sum += score);
        count += 1.0;
    }
    let names = ["rouge1", "rouge2", "rougeL", "rougeLsum"];
    let mean = |sum: f64| if count > 0.0 { 100.0 * sum / count } else { 0.0 };
    names.into_iter().zip(sums).map(|(name, sum)| (name.to_owned(), mean(sum))).collect()
}

/// The words of a text: runs of lower-case ASCII letters and digits, of which longer ones are stemmed.
fn words(text: &str) -> Vec<String> {
    let text = text.to_lowercase();
    let words = text.split(|letter: char| !letter.is_ascii_alphanumeric());
    let words = words.filter(|word| !word.is_empty());
    words.map(|word| if word.len() > 3 { stem(word) } else { word.to_owned() }).collect()
}

fn of_ngrams(prediction: &str, reference: &str, size: usize) -> f64 {
    let (predicted, expected) = (words(prediction), words(reference));
    let (predicted, expected) = (counts(&predicted, size), counts(&expected, size));
    let overlap = predicted
        .iter()
        .map(|(ngram, count)| (*count).min(expected.get(ngram).copied().unwrap_or(0)))
        .sum();
    f_measure(overlap, predicted.values().sum(), expected.values().sum())
}

fn counts(words: &[String], size: usize) -> HashMap<&[String], usize> {
    let mut counts = HashMap::new();
    words.windows(size).for_each(|ngram| *counts.entry(ngram).or_default() += 1);
    counts
}

fn of_subsequence(prediction: &str, reference: &str) -> f64 {
    let (predicted, expected) = (words(prediction), words(reference));
    let common = table(&expected, &predicted)[expected.len()][predicted.len()];
    f_measure(common, predicted.len(), expected.len())
}

/// The words of each sentence of the reference that are part of a common subsequence with a sentence
/// of the prediction, each counted as often as both have it.
fn of_sentences(prediction: &str, reference: &str) -> f64 {
    let sentences = |text: &str| -> Vec<Vec<String>> {
        text.split('\n').filter(|line| !line.is_empty()).map(words).collect()
    };
    let (predicted, expected) = (sentences(prediction), sentences(reference));
    let (mut of_predicted, mut of_expected) = (totals(&predicted), totals(&expected));
    let mut hits = 0;
    for sentence in &expected {
        let common: BTreeSet<usize> =
            predicted.iter().flat_map(|other| common_places(sentence, other)).collect();
        for word in common.into_iter().map(|place| sentence[place].as_str()) {
            let left = [of_predicted.get_mut(word), of_expected.get_mut(word)];
            if let [Some(predicted @ 1..), Some(expected @ 1..)] = left {
                *predicted -= 1;
                *expected -= 1;
                hits += 1;
            }
        }
    }
    let length = |sentences: &[Vec<String>]| sentences.iter().map(Vec::len).sum();
    f_measure(hits, length(&predicted), length(&expected))
}

fn totals(sentences: &[Vec<String>]) -> HashMap<&str, usize> {
    let mut totals = HashMap::new();
    for word in sentences.iter().flatten() {
        *totals.entry(word.as_str()).or_default() += 1;
    }
    totals
}

/// The places of `expected` in a longest common subsequence with `predicted`.
fn common_places(expected: &[String], predicted: &[String]) -> Vec<usize> {
    let lengths = table(expected, predicted);
    let (mut row, mut column) = (expected.len(), predicted.len());
    let mut places = Vec::new();
    while row > 0 && column > 0 {
        if expected[row - 1] == predicted[column - 1] {
            (row, column) = (row - 1, column - 1);
            places.push(row);
        } else if lengths[row][column - 1] > lengths[row - 1][column] {
            column -= 1;
        } else {
            row -= 1;
        }
    }
    places
}

/// The lengths of the longest common subsequences of all beginnings.
fn table(expected: &[String], predicted: &[String]) -> Vec<Vec<usize>> {
    let mut lengths = vec![vec![0; predicted.len() + 1]; expected.len() + 1];
    for (row, word) in expected.iter().enumerate() {
        for (column, other) in predicted.iter().enumerate() {
            lengths[row + 1][column + 1] = match word == other {
                true => lengths[row][column] + 1,
                false => lengths[row][column + 1].max(lengths[row + 1][column]),
            };
        }
    }
    lengths
}

fn f_measure(hits: usize, predicted: usize, expected: usize) -> f64 {
    let share = |of: usize| hits as f64 / of.max(1) as f64;
    let (precision, recall) = (share(predicted), share(expected));
    if hits == 0 { 0.0 } else { 2.0 * precision * recall / (precision + recall) }
}
