//! Rows for each task, made of the words of [`traind_tests::data`].

use serde_json::{Value, json};
use traind_tests::data;

const WORDS_MAX: usize = 10;

fn texts(seed: u64, count: usize) -> impl Iterator<Item = (String, &'static str)> {
    data::rows(seed, count, WORDS_MAX).into_iter()
}

pub(crate) fn jsonl(rows: impl Iterator<Item = Value>) -> String {
    rows.map(|row| format!("{row}\n")).collect()
}

/// Rows of plain text.
pub(crate) fn lines(seed: u64, count: usize) -> String {
    jsonl(texts(seed, count).map(|(text, _)| json!({"text": text})))
}

/// Rows of words in which each word of a class is an entity.
pub(crate) fn words(seed: u64, count: usize) -> String {
    words_up_to(WORDS_MAX, seed, count)
}

/// Rows of up to `words_max` words in which each word of a class is an entity.
pub(crate) fn words_up_to(words_max: usize, seed: u64, count: usize) -> String {
    let others: Vec<&str> = data::other_words().to_vec();
    let label = |word: &str, class: &str| match others.contains(&word) {
        true => "O".to_owned(),
        false => format!("B-{class}"),
    };
    jsonl(data::rows(seed, count, words_max).into_iter().map(|(text, class)| {
        let words: Vec<&str> = text.split(' ').collect();
        let labels: Vec<String> = words.iter().map(|word| label(word, class)).collect();
        json!({"tokens": words, "labels": labels})
    }))
}

/// A file in SQuAD's format whose questions ask for a word of the context. With `unanswerable`, every
/// fifth question has no answer.
pub(crate) fn squad(seed: u64, count: usize, unanswerable: bool) -> String {
    let questions = texts(seed, count).enumerate().map(|(index, (context, _))| {
        let word = context.split(' ').nth(index % 3).unwrap().to_owned();
        let start = context.find(&word).unwrap();
        let answers = match unanswerable && index % 5 == 0 {
            true => json!([]),
            false => json!([{"text": word, "answer_start": start}]),
        };
        let question = json!({"id": format!("q{index}"), "question": word, "answers": answers});
        json!({"context": context, "qas": [question]})
    });
    json!({"data": [{"title": "words", "paragraphs": questions.collect::<Vec<_>>()}]}).to_string()
}
