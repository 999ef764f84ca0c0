//! Tasks make of rows what transformers and `datasets` make of them. The fixture is written by
//! `scripts/fixtures/loader_tasks.py`.

// A fixture of another shape is a failed test.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value as Json, json};
use traind_loader::squad::{AnswerOptions, Question, WindowLogits, predict, read_questions, score};
use traind_loader::{
    ArrayValues, BatchAxis, BatchPlan, BatchSizes, CausalLm, Collator, DatasetOptions,
    DecoderStart, HuggingFaceTokenizer, IGNORED_LABEL, LabelKind, LabelSpec, Labels, MaskedLm,
    Masking, Padding, QuestionAnswering, ScheduledBatch, Seq2SeqLm, TaskSpec, TextColumn,
    TextTokenizer, TokenClassification, TokenLimits, TokenizedSet, TokenizerOptions, prepare,
};

const TOKENIZERS: [&str; 2] = ["wordpiece", "byte_level_bpe"];
const NOT_IN_CONTEXT: [u32; 2] = [u32::MAX; 2];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The padded rows of an array of a batch.
fn array_rows(batch: &traind_loader::HostBatch, name: &str) -> Json {
    let array = batch.cores[0].array(name).unwrap();
    let ArrayValues::S32(values) = &array.values else { panic!("{array:?}") };
    json!(values.chunks(array.dims[1]).collect::<Vec<_>>())
}

/// A translation of `datasets` holds each text under its language.
#[test]
fn targets_are_shifted_and_padded() {
    let expected = expected();
    let pairs = expected["pairs"].as_array().unwrap();
    let columns: Vec<Json> =
        pairs.iter().map(|pair| json!({"document": pair[0], "summary": pair[1]})).collect();
    let languages: Vec<Json> =
        columns.iter().map(|row| json!({"translation": row.clone()})).collect();
    let column = |name: &str| TextColumn { column: name.to_owned(), field: None };
    let field =
        |name: &str| TextColumn { column: "translation".to_owned(), field: Some(name.to_owned()) };
    for name in TOKENIZERS {
        let expect = &expected[name]["seq2seq_lm"];
        let tokenizer = open(name, expected["max_length"].as_u64().unwrap());
        for (rows, source, target, labels, ignores) in [
            (&columns, column("document"), column("summary"), "labels", true),
            (&languages, field("document"), field("summary"), "labels", true),
            (&columns, column("document"), column("summary"), "labels_with_padding", false),
        ] {
            let task = TaskSpec::Seq2SeqLm(Seq2SeqLm {
                source,
                target: Some(target),
                source_prefix: expected["prefix"].as_str().unwrap().to_owned(),
                max_target_length: expected["max_target_length"].as_u64().unwrap() as u32,
                ignore_pad_token_for_loss: ignores,
                decoder_start: DecoderStart::Token(2),
            });
            let set = prepared(rows, task, &tokenizer);
            for (row, ids_of_row) in expect["input_ids"].as_array().unwrap().iter().enumerate() {
                assert_eq!(input_ids(&set, row), ids(ids_of_row), "{name}, row {row}");
            }
            let count = expect["input_ids"].as_array().unwrap().len();
            assert_eq!(set.len(), count);
            let targets = set.target_lengths().unwrap().iter().max().copied().unwrap();
            let sizes = BatchSizes::of_rows(count)
                .with(BatchAxis::Positions, set.lengths().iter().max().copied().unwrap())
                .with(BatchAxis::TargetPositions, targets);
            let plan = BatchPlan { sizes, rows: (0..count as u32).collect(), cores: 1 };
            let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
            let collator = Collator::new(set, Padding::behind(0));
            let batch = collator.collate(scheduled).unwrap();
            assert_eq!(array_rows(&batch, "labels"), expect[labels], "{name}");
            let inputs = array_rows(&batch, "decoder_input_ids");
            assert_eq!(inputs, expect["decoder_input_ids"], "{name}");
        }
    }
}

/// Tasks whose examples are a tokenizer's output for one or two texts at a time, which `token_parity.rs` compares.
const PLAIN_TEXTS: [&str; 3] = ["embedding", "reranker", "sequence_classification"];

#[test]
fn every_task_is_here() {
    let tests = [
        include_str!("task_parity.rs"),
        include_str!("trl_parity.rs"),
        include_str!("image_parity.rs"),
    ];
    let tests = tests.concat().to_lowercase();
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/tasks")).unwrap() {
        let path = entry.unwrap().path();
        let task = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if ["first_row", "lacking", "left_out", "mod", "tests", "tokenized"].contains(&&*task)
            || PLAIN_TEXTS.contains(&&*task)
        {
            continue;
        }
        assert!(
            tests.contains(&format!("taskspec::{}(", task.replace('_', ""))),
            "loader/src/tasks/{task}: add its rows to scripts/fixtures/loader_tasks.py and a test that \
             reproduces them to loader/tests/task_parity.rs"
        );
    }
}

fn expected() -> Json {
    let text = std::fs::read_to_string(fixtures().join("tasks/tasks.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn open(name: &str, max_length: u64) -> HuggingFaceTokenizer {
    let options = TokenizerOptions { max_length: Some(max_length as u32) };
    HuggingFaceTokenizer::open(&fixtures().join("token_parity").join(name), &options).unwrap()
}

fn options(file: String, task: TaskSpec) -> DatasetOptions {
    DatasetOptions {
        files: [file].into_iter().collect(),
        task,
        token_limits: TokenLimits::default(),
        cache_dir: None,
    }
}

/// The set of some rows, without a cache and twice with one: all three are the same.
fn prepared(rows: &[Json], task: TaskSpec, tokenizer: &dyn TextTokenizer) -> Arc<TokenizedSet> {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("rows.jsonl");
    let lines: Vec<String> = rows.iter().map(Json::to_string).collect();
    std::fs::write(&file, lines.join("\n")).unwrap();
    let options = options(file.to_str().unwrap().to_owned(), task);
    let plain = prepare(&options, tokenizer).unwrap().set;
    let options = DatasetOptions { cache_dir: Some(folder.path().join("cache")), ..options };
    for hit in [false, true] {
        let cached = prepare(&options, tokenizer).unwrap();
        assert_eq!((cached.cache_hit, &cached.warnings[..]), (hit, &[][..]));
        assert_eq!(contents(&cached.set), contents(&plain));
    }
    plain
}

/// All that is kept of each row.
fn contents(set: &TokenizedSet) -> Vec<String> {
    let row = |row| {
        let tokens = (set.input_ids(row).unwrap(), set.token_type_ids(row).unwrap());
        let targets = (set.token_labels(row).unwrap(), set.context_offsets(row).unwrap());
        let words = (set.first_tokens_of_words(row).unwrap(), set.source_row(row));
        format!("{tokens:?} {targets:?} {words:?} {:?}", set.target_ids(row).unwrap())
    };
    (0..set.len()).map(row).chain([format!("{:?}", set.labels())]).collect()
}

fn ids(json: &Json) -> Vec<i64> {
    json.as_array().unwrap().iter().map(|id| id.as_i64().unwrap()).collect()
}

fn input_ids(set: &TokenizedSet, row: usize) -> Vec<i64> {
    set.input_ids(row).unwrap().iter().map(|&id| i64::from(id)).collect()
}

#[test]
fn labels_of_words_go_to_their_tokens() {
    let expected = expected();
    let sentences = expected["sentences"].as_array().unwrap().iter();
    let rows: Vec<Json> = sentences.map(|row| json!({"tokens": row[0], "tags": row[1]})).collect();
    for (name, key, label_all_tokens) in [
        ("wordpiece", "labels", false),
        ("wordpiece", "labels_of_all_tokens", true),
        ("byte_level_bpe", "labels", false),
        ("byte_level_bpe", "labels_of_all_tokens", true),
    ] {
        let kind = LabelKind::Infer { num_labels: None };
        let task = TaskSpec::TokenClassification(TokenClassification {
            words: "tokens".to_owned(),
            labels: Some(LabelSpec {
                column: "tags".to_owned(),
                kind,
                weight: None,
                ignored: Vec::new(),
            }),
            label_all_tokens,
        });
        let tokenizer = open(name, expected["max_length"].as_u64().unwrap());
        let set = prepared(&rows, task, &tokenizer);
        let expected = &expected[name]["token_classification"];
        assert_eq!(json!(set.label_encoder().unwrap().id2label()), expected["label_list"]);
        for (row, expected) in expected["rows"].as_array().unwrap().iter().enumerate() {
            assert_eq!(input_ids(&set, row), ids(&expected["input_ids"]), "{name}, row {row}");
            let labels = set.token_labels(row).unwrap().unwrap();
            assert_eq!(json!(labels), expected[key], "{name}, row {row}");
        }
    }
}

fn questions(expected: &Json) -> Vec<Json> {
    let rows = expected["questions"].as_array().unwrap().iter().map(|row| {
        let context = row[2].as_str().unwrap();
        let texts = row[3].as_array().unwrap();
        let start = |text: &Json| {
            let byte = context.find(text.as_str().unwrap()).unwrap();
            context[..byte].chars().count()
        };
        let starts: Vec<usize> = texts.iter().map(start).collect();
        let answers = json!({"text": texts, "answer_start": starts});
        json!({"id": row[0], "question": row[1], "context": context, "answers": answers})
    });
    rows.collect()
}

fn question_answering(doc_stride: u32) -> TaskSpec {
    TaskSpec::QuestionAnswering(QuestionAnswering {
        id: Some("id".to_owned()),
        question: "question".to_owned(),
        context: "context".to_owned(),
        answers: Some("answers".to_owned()),
        doc_stride,
        keep_offsets: true,
    })
}

#[test]
fn contexts_fall_into_windows_with_their_answers() {
    let expected = expected();
    let rows = questions(&expected);
    for name in TOKENIZERS {
        let expected = &expected[name]["question_answering"];
        let task = question_answering(expected["doc_stride"].as_u64().unwrap() as u32);
        let tokenizer = open(name, expected["max_length"].as_u64().unwrap());
        let set = prepared(&rows, task, &tokenizer);
        let Labels::Span { start_positions, end_positions } = set.labels() else {
            panic!("{:?}", set.labels());
        };
        let windows = expected["windows"].as_array().unwrap();
        assert!(windows.len() > rows.len() + 2);
        assert_eq!(set.len(), windows.len());
        for (row, window) in windows.iter().enumerate() {
            assert_eq!(rows[set.source_row(row)]["id"], window["id"]);
            assert_eq!(input_ids(&set, row), ids(&window["input_ids"]), "{name}, window {row}");
            let span = (start_positions[row], end_positions[row]);
            assert_eq!(
                json!(span),
                json!([window["start"], window["end"]]),
                "{name}, window {row}"
            );
            let offsets = set.context_offsets(row).unwrap().unwrap();
            let offsets: Vec<Option<[u32; 2]>> =
                offsets.into_iter().map(|pair| (pair != NOT_IN_CONTEXT).then_some(pair)).collect();
            assert_eq!(json!(offsets), window["offsets"], "{name}, window {row}");
            let types = set.token_type_ids(row).unwrap();
            if !window["token_type_ids"].is_null() && types.is_some() {
                assert_eq!(json!(types), window["token_type_ids"]);
            }
        }
    }
}

#[test]
fn lines_and_blocks_are_those_of_the_scripts() {
    let expected = expected();
    let lines = expected["lines"].as_array().unwrap().iter();
    let rows: Vec<Json> = lines.map(|line| json!({"text": line})).collect();
    let text = || "text".to_owned();
    for name in TOKENIZERS {
        let tokenizer = open(name, expected["max_length"].as_u64().unwrap());
        let expected = &expected[name]["language_modelling"];
        let block_size = expected["block_size"].as_u64().unwrap() as u32;
        let masked = |block_size| TaskSpec::MaskedLm(MaskedLm { text: text(), block_size });
        let check = |task: TaskSpec, key: &str, special: Option<&str>| {
            let set = prepared(&rows, task, &tokenizer);
            let all: Vec<Vec<i64>> = (0..set.len()).map(|row| input_ids(&set, row)).collect();
            assert_eq!(json!(all), expected[key], "{name}, {key}");
            if let Some(special) = special {
                check_maskable(&set, &expected[special]);
            }
            set
        };
        check(masked(None), "lines", Some("lines_special"));
        check(masked(Some(block_size)), "blocks", Some("blocks_special"));
        let causal = TaskSpec::CausalLm(CausalLm { text: text(), block_size });
        assert_eq!(*check(causal, "blocks", None).labels(), Labels::InputIds);
    }
}

/// With a probability of 1 every token but the special ones is a target.
fn check_maskable(set: &Arc<TokenizedSet>, special: &Json) {
    let masking = Masking::new(1, 1.0, false, 4, 50).unwrap();
    let collator = Collator::new(Arc::clone(set), Padding::behind(0)).with_masking(masking);
    for (row, special) in special.as_array().unwrap().iter().enumerate() {
        let length = set.lengths()[row] + 2;
        let sizes = BatchSizes::of_rows(1).with(BatchAxis::Positions, length);
        let plan = BatchPlan { sizes, rows: vec![row as u32], cores: 1 };
        let scheduled = ScheduledBatch { batch: 0, epoch: 0, batch_in_epoch: 0, plan };
        let batch = collator.collate(scheduled).unwrap();
        let labels = &batch.cores[0].array("labels").unwrap().values;
        let ArrayValues::S32(targets) = labels else { panic!("{labels:?}") };
        let ignored: Vec<i64> = targets.iter().map(|&id| i64::from(id == IGNORED_LABEL)).collect();
        assert_eq!(ignored, [ids(special), vec![1, 1]].concat());
    }
}

#[test]
fn answers_are_those_of_trying_every_span() {
    let expected = &expected()["answers"];
    let number = |key: &str| expected[key].as_u64().unwrap() as usize;
    let floats = |json: &Json| -> Vec<f32> {
        json.as_array().unwrap().iter().map(|value| value.as_f64().unwrap() as f32).collect()
    };
    for case in expected["cases"].as_array().unwrap() {
        let options = AnswerOptions {
            n_best_size: number("n_best_size"),
            max_answer_length: number("max_answer_length"),
            version_2_with_negative: case["version_2"].as_bool().unwrap(),
            null_score_diff_threshold: expected["null_score_diff_threshold"].as_f64().unwrap()
                as f32,
        };
        let context = case["context"].as_str().unwrap().to_owned();
        let question = Question { id: String::new(), context, answers: Vec::new() };
        let windows = case["windows"].as_array().unwrap().iter().map(|window| {
            let offsets: Vec<Option<[u32; 2]>> =
                serde_json::from_value(window["offsets"].clone()).unwrap();
            let offsets: Vec<[u32; 2]> =
                offsets.into_iter().map(|pair| pair.unwrap_or(NOT_IN_CONTEXT)).collect();
            (offsets, floats(&window["start_logits"]), floats(&window["end_logits"]))
        });
        let windows: Vec<_> = windows.collect();
        let windows: Vec<WindowLogits<'_>> = windows
            .iter()
            .map(|(context_offsets, start_logits, end_logits)| WindowLogits {
                context_offsets,
                start_logits,
                end_logits,
            })
            .collect();
        let found = predict(&question, &windows, &options);
        assert_eq!(json!(found.text), case["text"]);
        let texts: Vec<&str> = found.n_best.iter().map(|best| best.text.as_str()).collect();
        let n_best = case["n_best"].as_array().unwrap();
        assert_eq!(json!(texts), n_best.iter().map(|best| best["text"].clone()).collect::<Json>());
        for (best, expected) in found.n_best.iter().zip(n_best) {
            assert!((best.probability - expected["probability"].as_f64().unwrap()).abs() < 1e-6);
        }
        match (found.null_score_diff, case["null_score_diff"].as_f64()) {
            (Some(found), Some(expected)) => assert!((f64::from(found) - expected).abs() < 1e-5),
            (found, expected) => assert!(found.is_none() && expected.is_none()),
        }
    }
}

#[test]
fn scores_are_those_of_squad() {
    let expected = expected();
    for (key, version_2) in [("squad_v1", false), ("squad_v2", true)] {
        let cases: Vec<(String, Vec<String>)> =
            serde_json::from_value(expected[key]["cases"].clone()).unwrap();
        let pairs = cases.iter().map(|(prediction, answers)| {
            (prediction.as_str(), answers.iter().map(String::as_str).collect())
        });
        let scores = score(pairs, version_2);
        assert_eq!(scores.total, cases.len());
        for (found, name) in [(scores.exact, "exact"), (scores.f1, "f1")] {
            let expected = expected[key][name].as_f64().unwrap();
            assert!((found - expected).abs() < 1e-9, "{key} {name}: {found} and {expected}");
        }
    }
}

#[test]
fn a_squad_file_becomes_predictions() {
    let rows = questions(&expected());
    let answers = |row: &Json| -> Vec<Json> {
        let starts = row["answers"]["answer_start"].as_array().unwrap();
        let texts = row["answers"]["text"].as_array().unwrap().iter();
        texts
            .zip(starts)
            .map(|(text, start)| json!({"text": text, "answer_start": start}))
            .collect()
    };
    let paragraph = |row: &Json| {
        let asked = json!({"id": row["id"], "question": row["question"], "answers": answers(row)});
        json!({"context": row["context"], "qas": [asked]})
    };
    let paragraphs: Vec<Json> = rows.iter().map(paragraph).collect();
    let file = json!({"version": "1.1", "data": [{"title": "Mill", "paragraphs": paragraphs}]});
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [
        ("line.json", file.to_string()),
        ("pretty.json", serde_json::to_string_pretty(&file).unwrap()),
        ("rows.json", json!({"data": rows}).to_string()),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let options = options(path.to_str().unwrap().to_owned(), question_answering(6));
        let set = prepare(&options, &open("wordpiece", 40)).unwrap().set;
        let questions = read_questions(&options, |_| true).unwrap();
        assert_eq!(read_questions(&options, |row| row == 1).unwrap(), questions[1..2]);
        assert_eq!(questions.len(), rows.len());
        // A model that points at every right answer scores all of them.
        let predictions: Vec<String> = (0..questions.len())
            .map(|question| predict_right(&set, &questions[question], question).text)
            .collect();
        let pairs = predictions.iter().zip(&questions).map(|(prediction, question)| {
            (
                prediction.as_str(),
                question.answers.iter().map(|right| right.text.as_str()).collect(),
            )
        });
        let scores = score(pairs, true);
        assert_eq!((scores.exact, scores.f1, scores.no_answer.total), (100.0, 100.0, 1));
    }
}

fn predict_right(
    set: &TokenizedSet,
    question: &Question,
    row: usize,
) -> traind_loader::squad::Prediction {
    let Labels::Span { start_positions, end_positions } = set.labels() else {
        panic!("no spans");
    };
    let windows: Vec<usize> =
        (0..set.len()).filter(|&window| set.source_row(window) == row).collect();
    let peak = |window: usize, place: i32| {
        let mut logits = vec![0.0; set.lengths()[window] as usize];
        logits[place as usize] = 9.0 + f32::from(u8::from(place > 0));
        logits
    };
    let logits: Vec<(Vec<f32>, Vec<f32>)> = windows
        .iter()
        .map(|&window| (peak(window, start_positions[window]), peak(window, end_positions[window])))
        .collect();
    let offsets = windows.iter().map(|&window| set.context_offsets(window).unwrap().unwrap());
    let offsets: Vec<Vec<[u32; 2]>> = offsets.collect();
    let windows: Vec<WindowLogits<'_>> = offsets
        .iter()
        .zip(&logits)
        .map(|(context_offsets, (start_logits, end_logits))| WindowLogits {
            context_offsets,
            start_logits,
            end_logits,
        })
        .collect();
    let options = AnswerOptions { version_2_with_negative: true, ..AnswerOptions::default() };
    predict(question, &windows, &options)
}

#[test]
fn a_folder_of_datasets_is_read_by_split() {
    let expected = expected();
    let sentences = expected["sentences"].as_array().unwrap();
    let saved = fixtures().join("tasks/saved");
    let kind = LabelKind::Infer { num_labels: None };
    let task = TaskSpec::TokenClassification(TokenClassification {
        words: "tokens".to_owned(),
        labels: Some(LabelSpec {
            column: "tags".to_owned(),
            kind,
            weight: None,
            ignored: Vec::new(),
        }),
        label_all_tokens: false,
    });
    let tokenizer = open("wordpiece", 64);
    let check = |folder: &Path, split: &str, rows: usize, files: usize| {
        let mut options = options(folder.to_str().unwrap().to_owned(), task.clone());
        options.files.split = split.to_owned();
        let set = prepare(&options, &tokenizer).unwrap().set;
        assert_eq!((set.len(), set.files().len()), (rows, files));
        let names = set.label_encoder().unwrap().id2label();
        assert_eq!(json!(names), expected["wordpiece"]["token_classification"]["label_list"]);
        for (row, sentence) in sentences.iter().enumerate().take(rows) {
            let words = sentence[0].as_array().unwrap().iter();
            let words: Vec<&str> = words.map(|word| word.as_str().unwrap()).collect();
            let encoded = tokenizer.encode_words(&words).unwrap().encoded;
            assert_eq!(set.input_ids(row).unwrap(), encoded.input_ids);
        }
    };
    check(&saved, "train", sentences.len(), 2);
    check(&saved, "validation", 2, 1);
    check(&saved.join("train"), "validation", sentences.len(), 2);
    let mut options = options(saved.to_str().unwrap().to_owned(), task);
    options.files.split = "test".to_owned();
    let error = prepare(&options, &tokenizer);
    let error = error.unwrap_err().to_string();
    assert!(error.ends_with("saved: no split \"test\"; it has train, validation"), "{error}");
}
