//! `docs/neuron.md` says what the tables say.

#![allow(clippy::unwrap_used)]

use std::collections::BTreeSet;

use traind_neuron::{
    CLIENT_API, CORE_KINDS, ELEMENT_INDEX_EXACT_MAX, Generation, OUTPUT_BYTES_MAX, ROOT_COMM_PORT,
    ROOT_COMM_PORTS, RUNTIME, Version, explain, replica_groups_max,
};

/// The page, without line ends.
fn document() -> String {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/neuron.md");
    std::fs::read_to_string(path).unwrap().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn assert_says(text: &str, part: &str) {
    assert!(text.contains(part), "docs/neuron.md does not say {part:?}");
}

/// Memory and bf16 TFLOP/s, rounded as the page has them: to a quarter.
#[test]
fn each_kind_of_core_has_a_row() {
    let text = document();
    for kind in CORE_KINDS {
        let cells = text.split(" | ").collect::<Vec<_>>();
        let is_named = |cell: &str| cell.split(' ').next() == Some(kind.kind);
        let at = cells.iter().position(|cell| is_named(cell)).unwrap();
        assert_eq!(cells[at + 1], format!("{} GiB", kind.memory_bytes >> 30), "{}", kind.kind);
        let peak: f64 = cells[at + 2].split(' ').next().unwrap().parse().unwrap();
        assert!((peak - kind.peak_flops[0] / 1e12).abs() < 0.05, "{}: {peak}", kind.kind);
    }
}

#[test]
fn counts_of_cores_are_those_that_the_page_names() {
    let words = |generation: Generation| {
        let counts = generation.documented_core_counts().iter().map(u32::to_string);
        let counts: Vec<String> = counts.collect();
        let (last, others) = counts.split_last().unwrap();
        (others.join(", "), last.clone())
    };
    let (others, last) = words(Generation::Trainium1);
    assert_says(&document(), &format!("{others} or {last} cores of trn1"));
    let (others, last) = words(Generation::Trainium2);
    assert_says(&document(), &format!("{others} or {last} of trn2 and trn3"));
}

#[test]
fn limits_are_those_that_the_page_names() {
    let text = document();
    assert_says(&text, &format!("exact up to 2^{}", ELEMENT_INDEX_EXACT_MAX.ilog2()));
    assert_says(&text, &format!("results over {} GB", OUTPUT_BYTES_MAX >> 30));
    let [before, from] = [Version::new(2, 33), Version::new(2, 34)];
    let [before, from] = [before, from].map(|version| replica_groups_max(Some(version)));
    assert_says(&text, &format!("replica groups ({before}, or {from} from runtime 2.34)"));
    let last = ROOT_COMM_PORT + ROOT_COMM_PORTS - 1;
    assert_says(&text, &format!("reserve {ROOT_COMM_PORT} to {last}"));
    assert_says(&text, &format!("traind uses {CLIENT_API}"));
}

/// "(`NRT …` 1, 4, 5, 6, 7, 11, 101, 1004, 1005, 1100 and 1200 to 1206, except 1204)".
#[test]
fn statuses_that_may_pass_are_those_that_the_page_names() {
    let text = document();
    let (_, list) = text.split_once("(`NRT …` ").unwrap();
    let (list, exceptions) = list.split_once(')').unwrap().0.split_once(", except ").unwrap();
    let (singles, range) = list.split_once(" and ").unwrap();
    let number = |text: &str| text.trim().parse::<u32>().unwrap();
    let (first, last) = range.split_once(" to ").unwrap();
    let named = singles.split(',').map(number).chain(number(first)..=number(last));
    let named: BTreeSet<u32> = named.filter(|status| *status != number(exceptions)).collect();
    let passing = RUNTIME.iter().filter(|code| code.cause.may_pass()).map(|code| code.status);
    assert_eq!(named, passing.collect());
    let killed = explain("[F137] neuronx-cc was forcibly killed").unwrap();
    assert!(killed.cause.may_pass());
    assert_says(&text, "a compiler that was killed (`F137`)");
    assert!(explain("nrt_execute: status 1300").unwrap().cause.may_pass());
    assert_says(&text, "a status that traind does not know");
}
