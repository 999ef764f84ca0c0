//! Sets are mixed and cut as `datasets` does it. The fixture is written by
//! `scripts/fixtures/mixtures.py`.

use std::sync::Arc;

use serde_json::Value as Json;

use super::order::Order;
use super::*;
use crate::dataset::{DatasetOptions, OpenSet, TokenizedSet};
use crate::error::Result;
use crate::labels::{LabelEncoder, LabelKind, LabelSpec};
use crate::tasks::{KnownTokenizer, SequenceClassification, TaskSpec};
use crate::testing::{DataFolder, WordTokenizer};
use crate::token_row::TokenLimits;

fn expected() -> Json {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/mixtures.json");
    serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
}

fn mixing(name: &str) -> Mixing {
    match name {
        "first_exhausted" => Mixing::FirstExhausted,
        "all_exhausted" => Mixing::AllExhausted,
        "all_exhausted_without_replacement" => Mixing::WithoutReplacement,
        _ => Mixing::Concatenate,
    }
}

#[test]
fn rows_are_interleaved_as_by_datasets() {
    for case in expected()["interleaved"].as_array().unwrap() {
        let lengths: Vec<u64> = serde_json::from_value(case["lengths"].clone()).unwrap();
        let weights: Option<Vec<f64>> =
            serde_json::from_value(case["probabilities"].clone()).unwrap();
        let seed = case["seed"].as_u64().unwrap_or_default();
        let mixing = mixing(case["strategy"].as_str().unwrap());
        let order = Order::new(mixing, lengths, weights.as_deref(), seed).unwrap();
        let found: String = order.map(|set| set.to_string()).collect();
        assert_eq!(found, case["sets"].as_str().unwrap(), "{case}");
    }
}

#[test]
fn splits_are_cut_as_by_datasets() {
    for case in expected()["splits"].as_array().unwrap() {
        let expression = case["expression"].as_str().unwrap();
        let count = case["count"].as_u64().unwrap();
        let parts = SplitPart::parse(expression);
        let rows = parts.and_then(|parts| {
            parts.iter().map(|part| part.range.rows(count)).collect::<Result<Vec<_>>>()
        });
        let expect: Option<Vec<(u64, u64)>> = serde_json::from_value(case["rows"].clone()).unwrap();
        assert_eq!(rows.ok(), expect, "{expression} of {count}");
    }
}

/// The set of files of which each row is one word, its number.
fn set(
    folder: &DataFolder,
    sets: &[(&str, &str)],
    change: impl Fn(&mut Mixture),
) -> Result<Arc<TokenizedSet>> {
    let set = |(names, split): &(&str, &str)| {
        let files: Files =
            names.split(' ').map(|name| folder.path(name).to_str().unwrap().to_owned()).collect();
        let parts = SplitPart::parse(split).unwrap();
        let parts = parts.into_iter().map(|part| (files.clone(), part.range)).collect();
        MixedSet { parts, limit: None, weight: None }
    };
    let mut mixture =
        Mixture { sets: sets.iter().map(set).collect(), mixing: Mixing::Concatenate, seed: 0 };
    change(&mut mixture);
    let options = DatasetOptions {
        files: mixture.sets[0].parts[0].0.clone(),
        task: TaskSpec::SequenceClassification(SequenceClassification {
            text: "text".to_owned(),
            text_pair: None,
            label: None,
        }),
        token_limits: TokenLimits::default(),
        cache_dir: Some(folder.path("cache")),
    };
    let tokenizer = WordTokenizer::reading(|word| word.parse().unwrap());
    let open = || OpenSet::open_mixture(&options, &mixture, &tokenizer);
    let made = open()?.prepare(&tokenizer, &mut |_| true)?;
    let cached = open()?.prepare(&tokenizer, &mut |_| true)?;
    assert!(cached.cache_hit);
    assert_eq!(rows(&made.set), rows(&cached.set));
    Ok(cached.set)
}

fn rows(set: &TokenizedSet) -> Vec<u32> {
    (0..set.len()).flat_map(|row| set.input_ids(row).unwrap()).collect()
}

fn folder() -> DataFolder {
    let folder = DataFolder::new();
    let lines = |words: std::ops::Range<u32>| {
        words.map(|word| format!("{{\"text\": \"{word}\"}}\n")).collect::<String>()
    };
    folder.write("a.jsonl", lines(0..10));
    folder.write("b.jsonl", lines(10..13));
    folder.write("c.jsonl", lines(20..25));
    folder
}

#[test]
fn sets_are_read_in_their_order_with_the_origin_of_each_row() {
    let folder = folder();
    let check = |sets: &[(&str, &str)], change: fn(&mut Mixture), expect: &[u32]| {
        let set = set(&folder, sets, change).unwrap();
        assert_eq!(rows(&set), expect, "{sets:?}");
        for row in 0..set.len() {
            let at = set.origin(row).unwrap();
            let word = rows(&set)[row];
            let (file, first) = match word {
                0..10 => ("a.jsonl", 0),
                10..20 => ("b.jsonl", 10),
                _ => ("c.jsonl", 20),
            };
            assert!(at.file.ends_with(file), "{at}");
            assert_eq!(at.row, u64::from(word - first), "{at}");
        }
    };
    let plain: fn(&mut Mixture) = |_| {};
    check(&[("b.jsonl", "train"), ("c.jsonl", "train[1:3]")], plain, &[10, 11, 12, 21, 22]);
    check(&[("a.jsonl b.jsonl", "train[8:11]")], plain, &[8, 9, 10]);
    check(&[("a.jsonl", "train[:20%]+train[-2:]")], plain, &[0, 1, 8, 9]);
    let limited: fn(&mut Mixture) = |mixture| mixture.sets[0].limit = Some(2);
    check(&[("a.jsonl", "train[5:]"), ("b.jsonl", "train")], limited, &[5, 6, 10, 11, 12]);
    let in_turns: fn(&mut Mixture) = |mixture| mixture.mixing = Mixing::FirstExhausted;
    let sets = [("a.jsonl", "train[:50%]"), ("b.jsonl", "train[:2]")];
    check(&sets, in_turns, &[0, 10, 1, 11]);
    let again: fn(&mut Mixture) = |mixture| mixture.mixing = Mixing::AllExhausted;
    check(&sets, again, &[0, 10, 1, 11, 2, 10, 3, 11, 4, 10]);
    let once: fn(&mut Mixture) = |mixture| mixture.mixing = Mixing::WithoutReplacement;
    check(&sets, once, &[0, 10, 1, 11, 2, 3, 4]);
}

#[test]
fn a_set_without_rows_cannot_take_turns() {
    let folder = folder();
    let in_turns = |mixture: &mut Mixture| mixture.mixing = Mixing::FirstExhausted;
    let sets = [("a.jsonl", "train"), ("b.jsonl", "train[3:]")];
    let error = set(&folder, &sets, in_turns).unwrap_err().to_string();
    assert!(error.contains("set 1, which has no rows"), "{error}");
}

#[test]
fn texts_that_are_no_splits_are_refused() {
    for text in ["", "train[", "train[1]", "train[a:b]", "train[:110%]", "train(closest)", "a b"] {
        assert!(SplitPart::parse(text).is_err(), "{text}");
    }
}

/// Lines were counted for the place of each class, from the beginning of the file: a planner took longer for some
/// thousand classes than it may.
#[test]
fn the_classes_of_many_rows_are_checked_without_counting_lines() {
    const ROWS: usize = 4_000;
    let folder = DataFolder::new();
    let text = "a ".repeat(500);
    let rows: String = (0..ROWS).map(|row| format!("{text},class {row}\n")).collect();
    folder.write("a.csv", format!("text,label\n{rows}"));
    folder.write("bad.csv", format!("text,label\n{rows}{text},class {ROWS}\n"));
    let label =
        |kind| LabelSpec { column: "label".to_owned(), kind, weight: None, ignored: Vec::new() };
    let check = |name: &str, kind: LabelKind| {
        let files: Files = [folder.path(name).to_str().unwrap().to_owned()].into_iter().collect();
        let set =
            MixedSet { parts: vec![(files, SplitRange::default())], limit: None, weight: None };
        let mixture = Mixture { sets: vec![set], mixing: Mixing::Concatenate, seed: 0 };
        let task = TaskSpec::SequenceClassification(SequenceClassification {
            text: "text".to_owned(),
            text_pair: None,
            label: Some(label(kind)),
        });
        crate::dataset::check_files(&mixture, &task, KnownTokenizer::default(), true)
    };
    let start = std::time::Instant::now();
    let rule = check("a.csv", LabelKind::Infer { num_labels: None }).unwrap().rule;
    assert_eq!(rule.flatten().unwrap().num_labels(), ROWS as u32);
    assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    // An error still has its line.
    let names = (0..ROWS).map(|row| format!("class {row}")).collect();
    let kind = LabelKind::Encoder(LabelEncoder::of_model(names));
    let error = check("bad.csv", kind).map(drop).unwrap_err().to_string();
    assert!(error.contains(&format!("(line {})", ROWS + 2)), "{error}");
}
