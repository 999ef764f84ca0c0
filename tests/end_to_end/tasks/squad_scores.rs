//! The scores of a question-answering job, recomputed from its `predictions.json` by the rules of
//! SQuAD's evaluation scripts.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use traind_tests::{Host, Output, data};

use super::{Metrics, TaskJob};

const WORDS_MAX: usize = 10;

/// Contexts with capitals and punctuation, each with two questions. Answers have one to three words,
/// and most have a second accepted form. With `unanswerable`, every fourth question has none.
fn squad(seed: u64, count: usize, unanswerable: bool) -> String {
    let paragraphs = data::rows(seed, count, WORDS_MAX).into_iter().enumerate();
    let paragraphs = paragraphs.map(|(number, (text, _))| {
        let words: Vec<String> = text.split(' ').enumerate().map(decorated).collect();
        let question = |which: usize| {
            let id = 2 * number + which;
            let first = id % (words.len() - 2);
            let answers = match unanswerable && id % 4 == 1 {
                true => Vec::new(),
                false => vec![answer(&words, first, 1 + id % 3), answer(&words, first, 1 + id % 2)],
            };
            let asked = text.split(' ').nth(first);
            json!({"id": format!("q{id}"), "question": asked, "answers": answers})
        };
        json!({"context": words.join(" "), "qas": [question(0), question(1)]})
    });
    json!({"data": [{"title": "t", "paragraphs": paragraphs.collect::<Vec<_>>()}]}).to_string()
}

fn decorated((place, word): (usize, &str)) -> String {
    match place % 4 {
        1 => format!("{word},"),
        2 => word.to_uppercase(),
        3 => format!("\"{word}\"!"),
        _ => word.to_owned(),
    }
}

fn answer(words: &[String], first: usize, count: usize) -> Value {
    let end = (first + count).min(words.len());
    let start: usize = words[..first].iter().map(|word| word.len() + 1).sum();
    json!({"text": words[first..end].join(" "), "answer_start": start})
}

/// The normalized text that the scripts compare: lower case, without punctuation and articles, with
/// single spaces.
fn plain(text: &str) -> String {
    const PUNCTUATION: &str = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~";
    let text = text.to_lowercase().replace(|letter| PUNCTUATION.contains(letter), "");
    let words = text.split_whitespace().filter(|word| !["a", "an", "the"].contains(word));
    words.collect::<Vec<_>>().join(" ")
}

/// The F1 of the words of two texts.
fn f1(one: &str, other: &str) -> f64 {
    let (mut one, other): (Vec<&str>, Vec<&str>) =
        (one.split_whitespace().collect(), other.split_whitespace().collect());
    let lengths = one.len() + other.len();
    let in_both = other.iter().filter(|word| {
        one.iter().position(|of| of == *word).map(|place| one.swap_remove(place)).is_some()
    });
    match in_both.count() {
        0 => 0.0,
        count => 2.0 * count as f64 / lengths as f64,
    }
}

/// Exact match and F1 of a question, by version 2.0 or 1.1 of the scripts.
fn score(prediction: &str, answers: &[String], version_2: bool) -> [f64; 2] {
    let prediction = plain(prediction);
    let mut right: Vec<String> = answers.iter().map(|text| plain(text)).collect();
    if version_2 {
        right.retain(|text| !text.is_empty());
        if right.is_empty() {
            right.push(String::new());
        }
    }
    let exact = right.contains(&prediction);
    let overlap = |text: &String| match version_2 && (text.is_empty() || prediction.is_empty()) {
        true => f64::from(u8::from(*text == prediction)),
        false => f1(&prediction, text),
    };
    [f64::from(u8::from(exact)), right.iter().map(overlap).fold(0.0, f64::max)]
}

/// The id and answers of each question.
fn questions(squad: &str) -> BTreeMap<String, Vec<String>> {
    let squad: Value = serde_json::from_str(squad).unwrap();
    let list = |value: &Value| value.as_array().unwrap().clone();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let questions =
        list(&squad["data"][0]["paragraphs"]).into_iter().flat_map(|of| list(&of["qas"]));
    let answers =
        |question: &Value| list(&question["answers"]).iter().map(|of| text(&of["text"])).collect();
    questions.map(|question| (text(&question["id"]), answers(&question))).collect()
}

/// Exact match and F1 in percent and the number of the questions that are `counted`.
fn scores(
    output: &Output,
    questions: &BTreeMap<String, Vec<String>>,
    version_2: bool,
    counted: impl Fn(&[String]) -> bool,
) -> [f64; 3] {
    let predictions = output.json("predictions.json");
    assert_eq!(predictions.as_object().unwrap().len(), questions.len());
    let counted = questions.iter().filter(|(_, answers)| counted(answers));
    let scored =
        counted.map(|(id, answers)| score(predictions[id].as_str().unwrap(), answers, version_2));
    let [exact, f1, count] =
        scored.fold([0.0; 3], |sums, [exact, f1]| [sums[0] + exact, sums[1] + f1, sums[2] + 1.0]);
    [100.0 * exact / count, 100.0 * f1 / count, count]
}

fn check(metrics: &Metrics, names: [&str; 2], [exact, f1, _]: [f64; 3]) {
    for (name, expect) in names.into_iter().zip([exact, f1]) {
        let found = metrics[&format!("eval_{name}")];
        assert!((found - expect).abs() < 1e-9, "{name}: {found} reported, {expect} counted");
    }
    assert!(0.0 < exact && exact < f1 && f1 < 100.0, "{names:?} shows little: {exact}, {f1}");
}

/// Trains until some answers are right, some nearly right and some wrong.
async fn evaluated(
    host: &Host,
    version_2: bool,
) -> (Metrics, Output, BTreeMap<String, Vec<String>>) {
    let validation = squad(2, 60, version_2);
    let job = TaskJob {
        task: "question-answering",
        fixture: "bert-question-answering",
        data: "{train: train.json, validation: validation.json, id: id, max_length: 24, \
               doc_stride: 4, pad_to_max_length: true}",
        files: vec![
            ("train.json", squad(1, 80, version_2)),
            ("validation.json", validation.clone()),
        ],
    };
    let draft = job
        .draft(host, if version_2 { "two" } else { "one" })
        .set("data.version_2_with_negative", version_2)
        .set("train.num_train_epochs", 5)
        .set("train.learning_rate", 1e-2);
    let metrics = host.complete(&draft).await.job.metrics.into_iter().collect();
    (metrics, draft.output("out"), questions(&validation))
}

#[tokio::test]
async fn scores_are_those_of_squads_script_1_1() {
    let host = Host::started(1).await;
    let (metrics, output, questions) = evaluated(&host, false).await;
    check(&metrics, ["exact_match", "f1"], scores(&output, &questions, false, |_| true));
}

#[tokio::test]
async fn scores_are_those_of_squads_script_2_0() {
    let host = Host::started(1).await;
    let (metrics, output, questions) = evaluated(&host, true).await;
    let scores = |counted: fn(&[String]) -> bool| scores(&output, &questions, true, counted);
    check(&metrics, ["exact", "f1"], scores(|_| true));
    check(&metrics, ["HasAns_exact", "HasAns_f1"], scores(|answers| !answers.is_empty()));
    // A question without an answer is scored 0 or 1.
    let [exact, f1, count] = scores(<[String]>::is_empty);
    assert_eq!(count, metrics["eval_NoAns_total"]);
    assert!((metrics["eval_NoAns_exact"] - exact).abs() < 1e-9, "{metrics:?}, {exact}");
    assert!((metrics["eval_NoAns_f1"] - f1).abs() < 1e-9, "{metrics:?}, {f1}");
    assert!(exact > 0.0, "nothing was found unanswerable");
}
