//! Rows that a task cannot use, and what tasks do that the fixture of transformers cannot show.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::*;
use crate::dataset::{DatasetOptions, TokenizedSet, prepare};
use crate::labels::{LabelFormat, LabelKind, Labels};
use crate::testing::DataFolder;
use crate::token_row::TokenLimit;
use crate::tokenize::{HuggingFaceTokenizer, TokenizerOptions};

pub(super) fn tokenizer(max_length: u32) -> HuggingFaceTokenizer {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/token_parity/wordpiece");
    HuggingFaceTokenizer::open(&folder, &TokenizerOptions { max_length: Some(max_length) }).unwrap()
}

/// Limits of rows that are tokens, as the job file gives them.
pub(super) fn token_limits(row: u32, target: u32) -> TokenLimits {
    let limit = |tokens, name| Some(TokenLimit { tokens, name });
    TokenLimits {
        row: limit(row, "data.max_length"),
        target: limit(target, "data.max_target_length"),
    }
}

pub(super) fn prepared(
    task: &TaskSpec,
    rows: &str,
    max_length: u32,
) -> Result<Arc<TokenizedSet>, String> {
    let folder = DataFolder::new();
    let options = DatasetOptions {
        files: [folder.write("a.jsonl", rows)].into_iter().collect(),
        task: task.clone(),
        token_limits: token_limits(max_length, 6),
        cache_dir: None::<PathBuf>,
    };
    let prepared = prepare(&options, &tokenizer(max_length));
    prepared.map(|prepared| prepared.set).map_err(|error| folder.shown(&error))
}

/// The error of the second of two rows, the first of which is good.
#[track_caller]
pub(super) fn check_error(task: &TaskSpec, good: &str, bad: &str, expect: &str) {
    prepared(task, good, 32).unwrap();
    let error = prepared(task, &format!("{good}\n{bad}"), 32).unwrap_err();
    assert_eq!(error, format!("a.jsonl, row 1{expect}"));
}

pub(super) fn words(kind: LabelKind) -> TaskSpec {
    TaskSpec::TokenClassification(TokenClassification {
        words: "words".to_owned(),
        labels: Some(LabelSpec {
            column: "tags".to_owned(),
            kind,
            weight: None,
            ignored: Vec::new(),
        }),
        label_all_tokens: false,
    })
}

#[test]
fn words_and_labels_must_pair() {
    let good = r#"{"words": ["the", "file"], "tags": ["O", "B-X"]}"#;
    let check = |bad: &str, expect: &str| {
        let task = words(LabelKind::Infer { num_labels: None });
        check_error(&task, good, bad, &format!(" (line 2), column {expect}"));
    };
    check(r#"{"words": ["the"], "tags": ["O", "O"]}"#, r#""tags": 2 labels for 1 word"#);
    check(r#"{"words": ["the", "a"], "tags": ["O"]}"#, r#""tags": 1 label for 2 words"#);
    check(r#"{"words": "the", "tags": ["O"]}"#, r#""words": expected a list of texts, found text"#);
    check(
        r#"{"words": ["the", 1], "tags": ["O", "O"]}"#,
        r#""words": expected a list of texts, found an integer in a list"#,
    );
    check(r#"{"words": ["the"], "tags": "O"}"#, r#""tags": expected a list of labels, found text"#);
    check(
        r#"{"words": ["the"], "tags": [null]}"#,
        r#""tags": no label: it is missing, or NaN; data.ignored_labels: [""] leaves it out"#,
    );
    check(
        r#"{"words": ["the"]}"#,
        r#""tags": no label: it is missing, or NaN; data.ignored_labels: [""] leaves it out"#,
    );
    let task = words(LabelKind::Infer { num_labels: Some(2) });
    let rows = "{\"words\": [\"the\"], \"tags\": [1]}\n{\"words\": [\"the\"], \"tags\": [2]}";
    let error = prepared(&task, rows, 32).unwrap_err();
    let expect = r#"a.jsonl, row 1, column "tags": label 2 is outside 0..2 (num_labels is 2); classes that are not numbered from 0 need a data.label_map"#;
    assert_eq!(error, expect);
    let error = prepared(&words(LabelKind::Regression { num_labels: 1 }), good, 32).unwrap_err();
    assert_eq!(error, "data.label: words have one class each");
}

#[test]
fn words_of_ignored_labels_count_in_no_loss() {
    let mut task = words(LabelKind::Infer { num_labels: None });
    let TaskSpec::TokenClassification(spec) = &mut task else { unreachable!() };
    spec.labels.as_mut().unwrap().ignored = vec!["-".to_owned(), String::new()];
    let rows = r#"{"words": ["the", "file", "a"], "tags": ["O", "-", null]}"#;
    let rows = format!("{rows}\n{}", rows.replace("\"O\"", "\"B\""));
    let set = prepared(&task, &rows, 32).unwrap();
    assert_eq!(set.label_encoder().unwrap().id2label(), ["B", "O"]);
    let labels: Vec<i32> = set.token_labels(0).unwrap().unwrap();
    assert_eq!(labels.iter().filter(|label| **label >= 0).collect::<Vec<_>>(), [&1]);
}

#[test]
fn labels_of_the_other_splits_follow_the_training_split() {
    let rows = r#"{"words": ["the", "file"], "tags": ["O", "B-X"]}"#;
    let train = prepared(&words(LabelKind::Infer { num_labels: None }), rows, 32).unwrap();
    let kind = LabelKind::Encoder(train.label_encoder().unwrap().clone());
    let other = r#"{"words": ["file"], "tags": ["O"]}"#;
    let set = prepared(&words(kind.clone()), other, 32).unwrap();
    assert_eq!(set.token_labels(0).unwrap().unwrap()[1], 1);
    let unseen = other.replace("O", "B-Y");
    let error = prepared(&words(kind), &unseen, 32).unwrap_err();
    assert!(
        error.ends_with("label \"B-Y\" does not occur in the training data, which has B-X, O"),
        "{error}"
    );
}

pub(super) fn questions(doc_stride: u32) -> TaskSpec {
    TaskSpec::QuestionAnswering(QuestionAnswering {
        id: None,
        question: "question".to_owned(),
        context: "context".to_owned(),
        answers: Some("answers".to_owned()),
        doc_stride,
        keep_offsets: false,
    })
}

pub(super) fn question(context: &str, answers: &str) -> String {
    format!(r#"{{"question": "the file", "context": "{context}", "answers": {answers}}}"#)
}

#[test]
fn an_answer_must_be_in_its_context() {
    let good = question("the été file", r#"{"text": ["file"], "answer_start": [8]}"#);
    let check = |answers: &str, expect: &str| {
        let bad = question("the été file", answers);
        let expect = format!(" (line 2), column \"answers\": {expect}");
        check_error(&questions(4), &good, &bad, &expect);
    };
    check(
        r#"{"text": ["file"], "answer_start": [7]}"#,
        r#"answer "file" is not in its context at character 7, where " fil" is"#,
    );
    check(
        r#"[{"text": "file", "answer_start": -1}]"#,
        r#"answer "file" is not in its context at character -1, where "" is"#,
    );
    check(
        r#"{"text": ["file", "the"], "answer_start": [8, 90]}"#,
        r#"answer "the" is not in its context at character 90, where "" is"#,
    );
    check(r#"{"text": ["file"], "answer_start": []}"#, "1 text, but 0 answer starts");
    let shape = "expected {text: [...], answer_start: [...]}, found";
    check(r#"{"text": "file", "answer_start": 8}"#, &format!("{shape} text"));
    check(r#""file""#, &format!("{shape} text"));
    check(r#"{"text": [3], "answer_start": [8]}"#, &format!("{shape} an integer"));
}

#[test]
fn a_question_must_leave_room_for_its_context() {
    let long = r#"{"text": ["the"], "answer_start": [0]}"#;
    let row = question(&"the ".repeat(30), long);
    let error = prepared(&questions(6), &row, 11).unwrap_err();
    let expect = "cannot tokenize: its 2 tokens leave room for 6 of the other text, which doc_stride 6 must be below";
    assert_eq!(error, format!("a.jsonl, row 0 (line 1): {expect}"));
    let error = prepared(&questions(11), &row, 11).unwrap_err();
    assert_eq!(error, "data.doc_stride: 11 must be below max_length 11");
}

#[test]
fn an_answer_may_begin_with_the_last_token_of_a_window() {
    let row = question("of of the", r#"{"text": ["the"], "answer_start": [6]}"#);
    let set = prepared(&questions(2), &row, 32).unwrap();
    let expect = Labels::Span { start_positions: vec![6], end_positions: vec![6] };
    assert_eq!(*set.labels(), expect);
    assert_eq!(set.lengths(), [8]);
}

#[test]
fn several_classes_may_apply_to_a_row() {
    let kind =
        LabelKind::MultiLabel { encoder: None, names: Vec::new(), num_labels: None, format: None };
    let task = |kind: LabelKind| {
        TaskSpec::SequenceClassification(SequenceClassification {
            text: "text".to_owned(),
            text_pair: None,
            label: Some(LabelSpec {
                column: "labels".to_owned(),
                kind,
                weight: None,
                ignored: Vec::new(),
            }),
        })
    };
    let row = |labels: &str| format!("{{\"text\": \"the\", \"labels\": {labels}}}\n");
    let rows = [row(r#"["b", "a", "b"]"#), row("[]"), row(r#"["c"]"#)].concat();
    let hot = |set: &TokenizedSet| match set.labels() {
        Labels::MultiLabel(labels) => (labels.classes, labels.all_hot()),
        other => panic!("{other:?}"),
    };
    let set = prepared(&task(kind.clone()), &rows, 32).unwrap();
    let values = vec![1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0];
    assert_eq!(hot(&set), (3, values));
    let histogram = crate::stats::SetStats::of(&set).unwrap().class_histogram;
    assert_eq!(histogram.iter().map(|(_, rows)| *rows).collect::<Vec<_>>(), [1, 1, 1]);
    let names = ["c", "b", "a"].map(str::to_owned).to_vec();
    let trained_further =
        LabelKind::MultiLabel { encoder: None, names, num_labels: None, format: None };
    let further = prepared(&task(trained_further), &rows, 32).unwrap();
    assert_eq!(further.label_encoder().unwrap().id2label(), ["c", "b", "a"]);
    let kind = kind.with_encoder(set.label_encoder().unwrap().clone());
    let other = prepared(&task(kind.clone()), &row(r#"["c"]"#), 32).unwrap();
    let values = vec![0.0, 0.0, 1.0];
    assert_eq!(hot(&other), (3, values));
    let at = " (line 2), column \"labels\":";
    let good = row("[]");
    let expect = format!("{at} expected a list of labels, found text");
    check_error(&task(kind.clone()), good.trim(), &row("\"a\""), &expect);
    let unseen = "label \"d\" does not occur in the training data, which has a, b, c";
    check_error(&task(kind), good.trim(), &row("[\"d\"]"), &format!("{at} {unseen}"));
}

/// Labels may be flags, as `datasets` maps them for transformers' `multi_label_classification`.
#[test]
fn a_row_may_have_one_number_a_class() {
    let task = |num_labels, format| {
        TaskSpec::SequenceClassification(SequenceClassification {
            text: "text".to_owned(),
            text_pair: None,
            label: Some(LabelSpec {
                column: "labels".to_owned(),
                kind: LabelKind::MultiLabel {
                    encoder: None,
                    names: Vec::new(),
                    num_labels,
                    format,
                },
                weight: None,
                ignored: Vec::new(),
            }),
        })
    };
    let rows = |labels: &[&str]| {
        let row = |labels: &&str| format!("{{\"text\": \"the\", \"labels\": {labels}}}\n");
        labels.iter().map(row).collect::<String>()
    };
    let hot = |task: &TaskSpec, labels: &[&str]| {
        prepared(task, &rows(labels), 32).map(|set| match set.labels() {
            Labels::MultiLabel(labels) => (labels.classes, labels.all_hot()),
            other => panic!("{other:?}"),
        })
    };
    let expect = Ok((3, vec![0.0, 1.0, 1.0, 0.0, 0.0, 1.0]));
    assert_eq!(hot(&task(None, None), &["[0.0, 1.0, 1.0]", "[0.0, 0.0, 1.0]"]), expect);
    assert_eq!(hot(&task(None, None), &["[false, true, true]", "[false, false, true]"]), expect);
    assert_eq!(hot(&task(None, None), &["[0, 1, 1]", "[0, 0, 1]"]), expect);
    assert_eq!(hot(&task(Some(3), None), &["[0, 1, 1]", "[0, 0, 1]"]), expect);
    let classes = Ok((3, vec![1.0, 1.0, 0.0, 0.0, 0.0, 1.0]));
    assert_eq!(hot(&task(Some(3), None), &["[0, 1]", "[2]"]), classes);
    let ambiguous = hot(&task(Some(2), None), &["[0, 1]", "[1, 0]"]).unwrap_err();
    assert!(ambiguous.contains("data.label_format"), "{ambiguous}");
    let one_hot = task(Some(2), Some(LabelFormat::OneHot));
    assert_eq!(hot(&one_hot, &["[0, 1]", "[1, 0]"]), Ok((2, vec![0.0, 1.0, 1.0, 0.0])));
    let as_classes = task(Some(2), Some(LabelFormat::Classes));
    assert_eq!(hot(&as_classes, &["[0, 1]", "[1, 0]"]), Ok((2, vec![1.0; 4])));
    let check = |labels: &str, expect: &str| {
        let error = hot(&task(None, None), &["[0.0, 1.0, 1.0]", labels]).unwrap_err();
        assert_eq!(error, format!("a.jsonl, row 1, column \"labels\": {expect}"));
    };
    check("[0.0, 1.0]", "2 numbers, where one for each of 3 classes is expected");
    check("[0.0, 0.5, 1.0]", "0.5 does not say whether a class applies, which is 0 or 1");
}

#[test]
fn blocks_begin_anew_after_a_thousand_texts() {
    let task = TaskSpec::CausalLm(CausalLm { text: "text".to_owned(), block_size: 7 });
    let rows = "{\"text\": \"the file\"}\n".repeat(1_001);
    let set = prepared(&task, &rows, 512).unwrap();
    // 4,000 tokens are 571 blocks and 3 tokens that are dropped; the last text fills none.
    assert_eq!((set.len(), set.source_row(0), set.source_row(570)), (571, 0, 997));
    assert!(set.lengths().iter().all(|&length| length == 7));
    let error = prepared(&task, "{\"text\": \"the\"}", 512).unwrap_err();
    assert_eq!(error, "data.block_size: 3 tokens do not fill a block of 7");
    let bad = TaskSpec::CausalLm(CausalLm { text: "text".to_owned(), block_size: 1 });
    let error = prepared(&bad, &rows, 512).unwrap_err();
    assert_eq!(error, "data.block_size: must be at least 2, found 1");
}

#[test]
fn a_file_of_blank_lines_has_no_rows() {
    let task = TaskSpec::MaskedLm(MaskedLm { text: "text".to_owned(), block_size: None });
    assert_eq!(
        prepared(&task, "{\"text\": \" \"}", 32).unwrap_err(),
        "a.jsonl: the only row was left out: it has no text"
    );
}

/// The masks are those of the Trainer, whose collator asks the tokenizer which tokens are special.
#[test]
fn special_tokens_of_a_text_are_not_masked() {
    let task = TaskSpec::MaskedLm(MaskedLm { text: "text".to_owned(), block_size: None });
    let set = prepared(&task, r#"{"text": "the files \u2603 [MASK] the"}"#, 32).unwrap();
    let ids = set.input_ids(0).unwrap();
    assert_eq!((ids[0], ids[4], ids[5]), (2, 1, 4), "{ids:?}");
    let (special, starts, continues) = (0, 1, 2);
    let expect = [special, starts, starts, continues, special, special, starts, special];
    assert_eq!(set.masking(0).unwrap(), expect);
}

#[test]
fn windows_of_a_question_stay_on_one_side_of_a_split() {
    let row = question(&"the ".repeat(70), r#"{"text": [], "answer_start": []}"#);
    let set = prepared(&questions(4), &[row.as_str(); 50].join("\n"), 32).unwrap();
    assert!(set.len() > 100);
    let (train, validation) = set.split_validation(0.21, 3).unwrap();
    let rows = |set: &TokenizedSet| {
        let mut rows: Vec<usize> = (0..set.len()).map(|row| set.source_row(row)).collect();
        rows.dedup();
        rows
    };
    assert_eq!((rows(&train).len(), rows(&validation).len()), (39, 11));
    let mut both = [rows(&train), rows(&validation)].concat();
    both.sort_unstable();
    assert_eq!(both, (0..50).collect::<Vec<_>>());
    assert_eq!(train.len() + validation.len(), set.len());
    let (again, _) = set.split_validation(0.21, 3).unwrap();
    assert_eq!(rows(&again), rows(&train));
    assert_ne!(rows(&set.split_validation(0.21, 4).unwrap().0), rows(&train));
    let positions = |set: &TokenizedSet| match set.labels() {
        Labels::Span { start_positions, .. } => start_positions.len(),
        other => panic!("{other:?}"),
    };
    assert_eq!((positions(&train), positions(&validation)), (train.len(), validation.len()));
    let ids = |set: &TokenizedSet, row| set.input_ids(row).unwrap();
    let place = (0..set.len()).find(|&row| set.source_row(row) == train.source_row(0)).unwrap();
    assert_eq!(ids(&train, 0), ids(&set, place));
    let (train, validation) = set.split_validation(11.0, 3).unwrap();
    assert_eq!((rows(&train).len(), rows(&validation).len()), (39, 11));
    for size in [0.0, 1.5, 50.0, 0.999, f64::NAN] {
        assert!(set.split_validation(size, 3).is_err());
    }
}

/// The column of labels that a task reads of files with the columns `available`.
#[track_caller]
fn check_label(task: &TaskSpec, available: &[&str], expect: &str) {
    let available: Vec<String> = available.iter().map(|name| (*name).to_owned()).collect();
    let task = task.for_columns(&available);
    let label = task.preprocessor().labels().unwrap();
    assert_eq!(label.column, expect, "{available:?}");
}

#[test]
fn labels_may_have_the_names_that_the_trainer_reads() {
    let label = |column: &str| {
        let kind = LabelKind::Infer { num_labels: None };
        Some(LabelSpec { column: column.to_owned(), kind, weight: None, ignored: Vec::new() })
    };
    let of_rows = |column: &str| {
        let (text, label) = ("text".to_owned(), label(column));
        TaskSpec::SequenceClassification(SequenceClassification { text, text_pair: None, label })
    };
    check_label(&of_rows("label"), &["text", "labels"], "labels");
    check_label(&of_rows("label"), &["text", "label_ids"], "label_ids");
    check_label(&of_rows("label"), &["text", "labels", "label"], "label");
    // Files without any are refused by the name that the job has.
    check_label(&of_rows("label"), &["text", "stars"], "label");
    check_label(&of_rows("stars"), &["text", "label"], "stars");
    let of_words = TaskSpec::TokenClassification(TokenClassification {
        words: "tokens".to_owned(),
        labels: label("labels"),
        label_all_tokens: false,
    });
    check_label(&of_words, &["tokens", "pos_tags", "ner_tags"], "ner_tags");
    check_label(&of_words, &["tokens", "label"], "labels");
}
