//! Mining beside sentence-transformers': `scripts/fixtures/mining.py` calls its `mine_hard_negatives` for given
//! vectors.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use traind_loader::{Files, Records, Source, Value as Cell};

use super::rows::{Pairs, Written, write};
use super::selection::Selection;
use super::vectors::normalized;
use super::*;
use crate::vectors::{Candidate, Vectors, nearest, similarity};

fn fixture() -> Value {
    serde_json::from_str(include_str!("../../fixtures/mining.json")).unwrap()
}

fn texts(values: &Value) -> Vec<String> {
    serde_json::from_value(values.clone()).unwrap()
}

/// A request with the settings of a case.
fn request(settings: &Value, output: PathBuf) -> MineRequest {
    let mut request = json!({
        "file": "pairs.jsonl", "num_negatives": 3, "sampling_strategy": "top", "seed": 1,
        "format": "triplet", "output": output, "scratch": output.parent().unwrap(),
        "query_job": {}, "corpus_job": {},
    });
    for (key, value) in settings.as_object().unwrap() {
        request[key] = value.clone();
    }
    serde_json::from_value(request).unwrap()
}

/// The pairs of the fixture, and the vectors of queries and texts.
fn given(fixture: &Value, with_corpus: bool) -> (Pairs, [Vectors; 2]) {
    let others = if with_corpus { texts(&fixture["corpus"]) } else { Vec::new() };
    let rows = fixture["rows"].as_array().unwrap().iter();
    let rows = rows.map(|row| serde_json::from_value::<[String; 2]>(row.clone()).unwrap());
    let columns = ["anchor", "positive"].map(str::to_owned);
    let pairs = Pairs::of(columns, others.into_iter(), rows);
    let vectors = |texts: &[String]| {
        let mut vectors = Vectors::default();
        for text in texts {
            let numbers: Vec<f32> =
                serde_json::from_value(fixture["vectors"][text].clone()).unwrap();
            vectors.width = numbers.len();
            vectors.values.extend(numbers);
        }
        normalized(vectors)
    };
    let both = [vectors(&pairs.queries), vectors(&pairs.corpus)];
    (pairs, both)
}

/// The rows that are written for a case.
fn mined(fixture: &Value, case: &Value) -> Vec<Value> {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out.jsonl");
    let written = mined_to(&output, fixture, case);
    let file = std::fs::read_to_string(&output).unwrap();
    let rows: Vec<Value> = file.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(written.rows, rows.len());
    rows
}

fn mined_to(output: &Path, fixture: &Value, case: &Value) -> Written {
    let request = request(&case["settings"], output.to_owned());
    let (pairs, [queries, corpus]) = given(fixture, case["corpus"] == true);
    let selection = Selection::new(&request, pairs.most_positives()).unwrap();
    let found = selection.of_all(&pairs, [&queries, &corpus], request.seed);
    write(&request, &pairs, &found).unwrap()
}

/// The end of the name says the format.
#[test]
fn rows_are_the_same_as_parquet() {
    let fixture = fixture();
    for case in fixture["cases"].as_array().unwrap() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("out.parquet");
        let (lines, settings) = (mined(&fixture, case), &case["settings"]);
        if lines.is_empty() {
            continue;
        }
        assert_eq!(mined_to(&output, &fixture, case).rows, lines.len());
        let source = Source::open(&Files::from_iter([output.display().to_string()])).unwrap();
        let names: Vec<&String> = lines[0].as_object().unwrap().keys().collect();
        assert_eq!(source.columns().iter().collect::<Vec<_>>(), names, "{settings}");
        let columns: Vec<&str> = source.columns().iter().map(String::as_str).collect();
        let mut rows = Vec::new();
        for part in source.parts() {
            let mut read = |records: Records| {
                rows.extend((0..records.len()).map(|row| {
                    let cell = |name: &&str| ((*name).to_owned(), json_of(records.cell(name, row)));
                    Value::Object(columns.iter().map(cell).collect())
                }));
                Ok(())
            };
            source.read(part, &columns, &mut read).unwrap();
        }
        assert_eq!(rows, lines, "{settings}");
    }
}

fn json_of(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => text.as_str().into(),
        Cell::Int(number) => (*number).into(),
        Cell::Float(number) => (*number).into(),
        Cell::List(items) => items.iter().map(json_of).collect(),
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn check_close(found: &Value, expect: &Value) {
    match (found, expect) {
        (Value::Object(found), Value::Object(expect)) => {
            assert!(found.keys().all(|key| expect.contains_key(key)), "{found:?}, {expect:?}");
            expect.iter().for_each(|(key, value)| check_close(&found[key], value));
        }
        (Value::Array(found), Value::Array(expect)) => {
            assert_eq!(found.len(), expect.len());
            found.iter().zip(expect).for_each(|(found, expect)| check_close(found, expect));
        }
        (Value::Number(found), Value::Number(expect)) => {
            let difference = found.as_f64().unwrap() - expect.as_f64().unwrap();
            assert!(difference.abs() < 1e-6, "{found}, theirs is {expect}");
        }
        _ => assert_eq!(found, expect),
    }
}

#[test]
fn negatives_are_those_of_sentence_transformers() {
    let fixture = fixture();
    for case in fixture["cases"].as_array().unwrap() {
        let found = mined(&fixture, case);
        let expect = case["rows"].as_array().unwrap();
        assert_eq!(found.len(), expect.len(), "{}", case["settings"]);
        found.iter().zip(expect).for_each(|(found, expect)| check_close(found, expect));
    }
}

/// Candidates are drawn from those within the limits, and the same ones by the same seed.
#[test]
fn random_negatives_are_some_of_the_nearest() {
    let fixture = fixture();
    let of = |settings: Value| mined(&fixture, &json!({"settings": settings, "corpus": true}));
    let drawn = |seed: u64| {
        of(json!({"sampling_strategy": "random", "range_max": 12, "seed": seed, "scores": true}))
    };
    let all = of(json!({"num_negatives": 12, "range_max": 12, "scores": true}));
    let one = drawn(1);
    assert_eq!(one, drawn(1));
    assert_ne!(one, drawn(2));
    assert_eq!(one.len() * 4, all.len());
    assert!(one.iter().all(|row| all.contains(row)));
}

#[test]
fn limits_that_leave_no_room_are_refused() {
    let check = |settings: Value, expect: &str| {
        let request = request(&settings, PathBuf::from("out.jsonl"));
        let error = Selection::new(&request, 1).unwrap_err().to_string();
        assert_eq!(error, expect);
    };
    check(json!({"num_negatives": 0}), "--num-negatives must be at least 1");
    check(
        json!({"range_min": 4, "range_max": 6}),
        "--range-max 6 leaves no room for 3 negatives from --range-min 4 on",
    );
}

/// The search in blocks finds what a sort of all similarities does, of vectors of any width.
#[test]
fn the_nearest_texts_are_exact() {
    let vectors = |count: usize, width: usize, seed: usize| {
        let number = |at: usize| ((at / width * 31 + at % width * 17 + seed) * 7919 % 1009) as f32;
        let values = (0..count * width).map(|at| number(at) - 500.0).collect();
        normalized(Vectors { width, values })
    };
    let (queries, texts) = (vectors(70, 37, 1), vectors(600, 37, 5));
    let found = nearest(&queries, &texts, 9);
    assert_eq!(found.len(), queries.len());
    for (query, found) in found.iter().enumerate() {
        let score = |text| Candidate { text, score: similarity(queries.of(query), texts.of(text)) };
        let mut all: Vec<Candidate> = (0..texts.len()).map(score).collect();
        all.sort_by(|a, b| b.score.total_cmp(&a.score).then(a.text.cmp(&b.text)));
        assert_eq!(found, &all[..9]);
    }
    assert_eq!(nearest(&queries, &vectors(3, 37, 2), 9)[0].len(), 3);
}
