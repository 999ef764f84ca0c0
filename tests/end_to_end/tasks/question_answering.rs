//! Question answering, from a file in SQuAD's format to the output files of its scripts.

use serde_json::Value;
use traind_tests::{Host, Output};

use super::{Metrics, TaskJob, architecture, assert_pipeline_tag, rows, train};

pub(super) fn job() -> TaskJob {
    TaskJob {
        task: "question-answering",
        fixture: "bert-question-answering",
        data: "{train: train.json, validation: validation.json, id: id, max_length: 10, doc_stride: 2}",
        files: vec![
            ("train.json", rows::squad(1, 60, false)),
            ("validation.json", rows::squad(2, 31, false)),
        ],
    }
}

#[tokio::test]
async fn answers_are_text_of_their_contexts() {
    let host = Host::started(2).await;
    let draft = job()
        .draft(&host, "answers")
        .set("resources.cores", 2)
        .set("train.num_train_epochs", 10)
        .set("train.learning_rate", 1e-2);
    let (metrics, output) = train(&host, &draft, 0.9).await;
    assert_eq!(architecture(&output), "BertForQuestionAnswering");
    assert_pipeline_tag(&output, "question-answering");
    let questions = questions(&rows::squad(2, 31, false));
    check_answers(&questions, &output, metrics["eval_exact_match"]);
    assert!(metrics["eval_f1"] >= metrics["eval_exact_match"], "{metrics:?}");
    check_n_best(&output);
}

/// Recomputes the share of exact answers. All answers are single words.
fn check_answers(questions: &[(String, String, Option<String>)], output: &Output, exact: f64) {
    let predictions = output.json("predictions.json");
    assert_eq!(predictions.as_object().unwrap().len(), questions.len());
    let mut right = 0;
    for (id, context, answer) in questions {
        let prediction = predictions[id].as_str().unwrap();
        assert!(context.contains(prediction), "{prediction:?} is not in {context:?}");
        // SQuAD's metric ignores articles.
        let words = |text: &str| {
            text.split(' ')
                .filter(|word| !["a", "the"].contains(word))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        right += usize::from(words(prediction) == words(answer.as_deref().unwrap_or("")));
    }
    let expect = 100.0 * right as f64 / questions.len() as f64;
    assert!((exact - expect).abs() < 1e-9, "{exact} reported, {expect} counted");
}

fn check_n_best(output: &Output) {
    let (n_best, best) = (output.json("nbest_predictions.json"), output.json("predictions.json"));
    for (id, candidates) in n_best.as_object().unwrap() {
        let candidates = candidates.as_array().unwrap();
        assert!((1..=20).contains(&candidates.len()), "{id}");
        assert_eq!(candidates[0]["text"], best[id], "{id}");
        let sum: f64 = candidates.iter().map(|of| of["probability"].as_f64().unwrap()).sum();
        assert!((sum - 1.0).abs() < 1e-9, "{id}: {sum}");
    }
}

/// The id, context and answer of each question.
pub(super) fn questions(squad: &str) -> Vec<(String, String, Option<String>)> {
    let squad: Value = serde_json::from_str(squad).unwrap();
    let text = |value: &Value| value.as_str().map(str::to_owned);
    let paragraphs = squad["data"][0]["paragraphs"].as_array().unwrap();
    let question = |paragraph: &Value| {
        let question = &paragraph["qas"][0];
        let answer = text(&question["answers"][0]["text"]);
        (text(&question["id"]).unwrap(), text(&paragraph["context"]).unwrap(), answer)
    };
    paragraphs.iter().map(question).collect()
}

#[tokio::test]
async fn questions_may_have_no_answer() {
    let host = Host::started(1).await;
    let mut job = job();
    job.data = "{train: train.json, validation: validation.json, id: id, \
                doc_stride: 4, version_2_with_negative: true}";
    job.files = vec![
        ("train.json", rows::squad(1, 60, true)),
        ("validation.json", rows::squad(2, 31, true)),
    ];
    let draft = job.draft(&host, "none").set("train.learning_rate", 1e-2);
    let history = host.complete(&draft).await;
    let metrics: Metrics = history.job.metrics.into_iter().collect();
    assert_eq!((metrics["eval_HasAns_total"], metrics["eval_NoAns_total"]), (24.0, 7.0));
    let whole = metrics["eval_HasAns_exact"] * 24.0 + metrics["eval_NoAns_exact"] * 7.0;
    assert!((metrics["eval_exact"] - whole / 31.0).abs() < 1e-9, "{metrics:?}");
    let odds = draft.output("out").json("null_odds.json");
    assert_eq!(odds.as_object().unwrap().len(), 31);
}
