//! Every metric against its reference: `fixtures/metrics.json`, which
//! `scripts/fixtures/metrics.py` makes.

use serde::Deserialize;

use super::*;

#[derive(Deserialize)]
struct Fixture {
    classification: Vec<Classification>,
    multi_label: Vec<MultiLabel>,
    regression: Vec<Regression>,
    entities: Vec<Entities>,
    squad: Vec<Squad>,
    stemmer: Stems,
    rouge: Vec<TextPairs>,
    bleu: Vec<TextPairs>,
}

/// Words and their stems, with spaces between them.
#[derive(Deserialize)]
struct Stems {
    words: String,
    stems: String,
}

/// Predictions, each with its reference.
#[derive(Deserialize)]
struct TextPairs {
    cases: Vec<(String, String)>,
    metrics: Metrics,
}

impl TextPairs {
    fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        self.cases.iter().map(|(prediction, reference)| (prediction.as_str(), reference.as_str()))
    }
}

#[derive(Deserialize)]
struct Classification {
    classes: usize,
    labels: Vec<usize>,
    predictions: Vec<usize>,
    metrics: Metrics,
}

#[derive(Deserialize)]
struct MultiLabel {
    labels: Vec<Vec<f32>>,
    logits: Vec<Vec<f32>>,
    metrics: Metrics,
}

#[derive(Deserialize)]
struct Regression {
    width: usize,
    labels: Vec<f32>,
    predictions: Vec<f32>,
    metrics: Metrics,
}

#[derive(Deserialize)]
struct Entities {
    labels: Vec<Vec<String>>,
    predictions: Vec<Vec<String>>,
    metrics: Metrics,
}

#[derive(Deserialize)]
struct Squad {
    version_2: bool,
    cases: Vec<(String, Vec<String>)>,
    metrics: Metrics,
}

fn fixture() -> Fixture {
    serde_json::from_str(include_str!("../../fixtures/metrics.json")).unwrap()
}

/// Modules without metrics of their own: [`averages`] serves two others.
const HELPERS: [&str; 3] = ["averages", "mod", "tests"];

#[test]
fn every_metric_has_references() {
    let fixture = include_str!("../../fixtures/metrics.json");
    type Sections = BTreeMap<String, serde_json::Value>;
    let mut sections: Sections = serde_json::from_str(fixture).unwrap();
    for more in [
        include_str!("../../fixtures/embeddings/metrics.json"),
        include_str!("../../fixtures/rerankers/metrics.json"),
    ] {
        sections.extend(serde_json::from_str::<Sections>(more).unwrap());
    }
    for entry in std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/src/metrics")).unwrap() {
        let path = entry.unwrap().path();
        let metric = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            HELPERS.contains(&metric) || sections.contains_key(metric),
            "daemon/runner/src/metrics/{metric}.rs: let scripts/fixtures/metrics.py write a section \
             {metric} of reference values, and compare with them in this file"
        );
    }
}

/// The same names, and the same values but for rounding.
#[track_caller]
fn check(what: &str, case: usize, found: &Metrics, expect: &Metrics) {
    let names: Vec<&String> = expect.keys().collect();
    assert_eq!(found.keys().collect::<Vec<_>>(), names, "{what} {case}");
    for (name, expect) in expect {
        let found = found[name];
        assert!((found - expect).abs() < 1e-12, "{what} {case}, {name}: {found} for {expect}");
    }
}

#[test]
fn classification_equals_scikit_learn() {
    for (case, expect) in fixture().classification.iter().enumerate() {
        let mut matrix = ConfusionMatrix::new(expect.classes);
        for (&label, &prediction) in expect.labels.iter().zip(&expect.predictions) {
            matrix.add(label, prediction);
        }
        check("classification", case, &matrix.metrics(), &expect.metrics);
    }
}

#[test]
fn multi_label_classification_equals_scikit_learn() {
    for (case, expect) in fixture().multi_label.iter().enumerate() {
        let (labels, logits) = (expect.labels.concat(), expect.logits.concat());
        let found = multi_label(expect.labels[0].len(), &labels, &logits);
        check("multi-label", case, &found, &expect.metrics);
    }
}

#[test]
fn regression_equals_scipy() {
    for (case, expect) in fixture().regression.iter().enumerate() {
        let found = regression(expect.width, &expect.labels, &expect.predictions);
        check("regression", case, &found, &expect.metrics);
    }
}

/// scipy has no number for it, and JSON none for scipy's.
#[test]
fn what_is_the_same_for_all_rows_correlates_with_nothing() {
    let found = regression(1, &[1.0, 2.0, 3.0], &[0.5; 3]);
    assert_eq!((found["pearson"], found["spearmanr"]), (0.0, 0.0));
}

#[test]
fn entities_equal_seqeval() {
    fn texts(labels: &[String]) -> Vec<&str> {
        labels.iter().map(String::as_str).collect()
    }
    for (case, expect) in fixture().entities.iter().enumerate() {
        let pairs = expect.labels.iter().zip(&expect.predictions);
        let sentences: Vec<Sentence<'_>> = pairs
            .map(|(labels, found)| Sentence { labels: texts(labels), predictions: texts(found) })
            .collect();
        check("entities", case, &entities(&sentences), &expect.metrics);
    }
}

#[test]
fn answers_are_scored_as_by_squads_scripts() {
    for (case, expect) in fixture().squad.iter().enumerate() {
        let pairs = expect.cases.iter().map(|(prediction, answers)| {
            (prediction.as_str(), answers.iter().map(String::as_str).collect())
        });
        let scores = traind_loader::squad::score(pairs, expect.version_2);
        check("squad", case, &squad(&scores, expect.version_2), &expect.metrics);
    }
}

#[test]
fn words_are_stemmed_as_by_rouge_score() {
    let Stems { words, stems } = fixture().stemmer;
    assert!(words.split(' ').count() > 600);
    for (word, expect) in words.split(' ').zip(stems.split(' ')) {
        assert_eq!(stemmer::stem(word), expect, "{word}");
    }
}

#[test]
fn texts_are_scored_as_by_rouge_score_and_sacrebleu() {
    let fixture = fixture();
    for (case, expect) in fixture.rouge.iter().enumerate() {
        check("rouge", case, &rouge(expect.pairs()), &expect.metrics);
    }
    for (case, expect) in fixture.bleu.iter().enumerate() {
        check("bleu", case, &bleu(expect.pairs()), &expect.metrics);
    }
    assert!(rouge([]).values().chain(bleu([]).values()).all(|value| *value == 0.0));
}

#[test]
fn argmax_takes_the_first_of_equals() {
    assert_eq!(argmax(&[0.0, 2.0, 2.0, -1.0]), 1);
}

#[derive(Deserialize)]
struct Embeddings {
    vectors: Vec<Vec<f32>>,
    /// The vectors of each row's texts.
    texts: Vec<Vec<usize>>,
    scores: Vec<f32>,
    similarity: Metrics,
    triplets: Metrics,
    retrieval: Metrics,
}

#[test]
fn metrics_of_embeddings_equal_those_of_sentence_transformers() {
    let fixture = include_str!("../../fixtures/embeddings/metrics.json");
    let fixture: BTreeMap<String, Embeddings> = serde_json::from_str(fixture).unwrap();
    let expect = &fixture["embedding"];
    let rows: Vec<Vec<f32>> = expect
        .texts
        .iter()
        .map(|texts| texts.iter().flat_map(|text| expect.vectors[*text].clone()).collect())
        .collect();
    let embedded = Embedded { rows: rows.iter().map(Vec::as_slice).collect(), texts: 3 };
    let ids: Vec<Vec<Vec<u32>>> = expect
        .texts
        .iter()
        .map(|row| row.iter().map(|text| vec![*text as u32]).collect())
        .collect();
    for (found, expect) in [
        (similarity(&embedded, &expect.scores), &expect.similarity),
        (triplets(&embedded), &expect.triplets),
        (retrieval(&embedded, &ids), &expect.retrieval),
    ] {
        assert!(found.keys().eq(expect.keys()), "{found:?}");
        for (name, expect) in expect {
            // Theirs are means and vectors in float32.
            let difference = (found[name] - expect).abs();
            assert!(difference < 1e-6, "{name}: {} for {expect}", found[name]);
        }
    }
}

#[derive(Deserialize)]
struct Rerankers {
    scores: Vec<f32>,
    relevant: Vec<u8>,
    labels: Vec<f32>,
    /// The passages of each query.
    order: Vec<Vec<usize>>,
    relevance: Metrics,
    correlation: Metrics,
    reranking: Metrics,
}

#[test]
fn metrics_of_rerankers_equal_those_of_sentence_transformers() {
    let fixture = include_str!("../../fixtures/rerankers/metrics.json");
    let expect: Rerankers = serde_json::from_str(fixture).unwrap();
    let is_relevant: Vec<bool> = expect.relevant.iter().map(|label| *label == 1).collect();
    let query = |places: &Vec<usize>| Ranked {
        scores: places.iter().map(|place| expect.scores[*place]).collect(),
        is_relevant: places.iter().map(|place| is_relevant[*place]).collect(),
    };
    let queries: Vec<Ranked> = expect.order.iter().map(query).collect();
    for (found, expect) in [
        (relevance(&expect.scores, &is_relevant), &expect.relevance),
        (correlation(&expect.scores, &expect.labels), &expect.correlation),
        (reranking(&queries), &expect.reranking),
    ] {
        assert!(found.keys().eq(expect.keys()), "{found:?}");
        for (name, expect) in expect {
            let difference = (found[name] - expect).abs();
            assert!(difference < 1e-6, "{name}: {} for {expect}", found[name]);
        }
    }
}

/// A query without a relevant passage counts as 0, and so do the metrics of no rows.
#[test]
fn metrics_of_rerankers_without_relevant_passages_are_zero() {
    let without = Ranked { scores: vec![0.5, 0.25], is_relevant: vec![false; 2] };
    let with = Ranked { scores: vec![0.5, 0.25], is_relevant: vec![true, false] };
    assert!(reranking(&[without, with]).values().all(|value| *value == 0.5));
    let of_none = relevance(&[0.5, 0.25], &[false; 2]);
    assert_eq!((of_none["accuracy"], of_none["average_precision"]), (1.0, 0.0));
    assert!(of_none["accuracy_threshold"] > 0.5);
    assert!(reranking(&[]).values().all(|value| *value == 0.0));
}
