//! Embedded texts: similarities against scores, triplets, and retrieval of positives, under the names that
//! sentence-transformers' evaluators give them.

use std::collections::{BTreeSet, HashMap};

use super::Metrics;
use super::regression::{pearson, ranks};
use crate::vectors::{Candidate, Vectors, nearest};

/// The cutoffs of accuracy, precision and recall.
const CUTOFFS: [usize; 4] = [1, 3, 5, 10];
/// The cutoff of the reciprocal rank and of the discounted gain.
const GAIN_CUTOFF: usize = 10;
/// The cutoff of the average precision.
const PRECISION_CUTOFF: usize = 100;

/// The embeddings of a split, text by text.
pub(crate) struct Embedded<'a> {
    /// The embeddings of each row, one behind the other.
    pub rows: Vec<&'a [f32]>,
    /// The texts of a row.
    pub texts: usize,
}

impl<'a> Embedded<'a> {
    /// The embedding of a row's text.
    fn of(&self, row: usize, text: usize) -> &'a [f32] {
        let values = self.rows[row];
        let width = values.len() / self.texts.max(1);
        &values[text * width..(text + 1) * width]
    }

    fn cosine(&self, row: usize, one: usize, other: usize) -> f64 {
        let (one, other) = (self.of(row, one), self.of(row, other));
        dot(one, other) / (dot(one, one).sqrt() * dot(other, other).sqrt()).max(f64::MIN_POSITIVE)
    }
}

/// Returns the correlations of the cosines of pairs with their scores, as `EmbeddingSimilarityEvaluator` has them.
pub(crate) fn similarity(embedded: &Embedded<'_>, scores: &[f32]) -> Metrics {
    let cosines: Vec<f64> =
        (0..embedded.rows.len()).map(|row| embedded.cosine(row, 0, 1)).collect();
    let scores: Vec<f64> = scores.iter().copied().map(f64::from).collect();
    Metrics::from([
        ("pearson_cosine".to_owned(), pearson(&scores, &cosines)),
        ("spearman_cosine".to_owned(), pearson(&ranks(&scores), &ranks(&cosines))),
    ])
}

/// Returns the share of anchors that are closer to their positive than to their first negative, as `TripletEvaluator`
/// has it.
pub(crate) fn triplets(embedded: &Embedded<'_>) -> Metrics {
    let rows = embedded.rows.len();
    let is_closer = |row: &usize| embedded.cosine(*row, 0, 1) > embedded.cosine(*row, 0, 2);
    let correct = (0..rows).filter(is_closer).count();
    Metrics::from([("cosine_accuracy".to_owned(), correct as f64 / rows.max(1) as f64)])
}

/// Returns how well anchors find their positives among all other texts of the split, as `InformationRetrievalEvaluator`
/// has it. `ids` are the tokens of each row's texts: equal texts are one.
pub(crate) fn retrieval(embedded: &Embedded<'_>, ids: &[Vec<Vec<u32>>]) -> Metrics {
    let mut corpus = Texts::default();
    let mut queries = Texts::default();
    let mut relevant: Vec<BTreeSet<usize>> = Vec::new();
    for (row, texts) in ids.iter().enumerate() {
        let query = queries.add(&texts[0], embedded.of(row, 0));
        relevant.resize(queries.vectors.len(), BTreeSet::new());
        for (text, ids) in texts.iter().enumerate().skip(1) {
            let document = corpus.add(ids, embedded.of(row, text));
            if text == 1 {
                relevant[query].insert(document);
            }
        }
    }
    let found = nearest(&queries.vectors, &corpus.vectors, PRECISION_CUTOFF);
    let mut metrics = Metrics::new();
    for (found, relevant) in found.iter().zip(&relevant) {
        for (name, value) in of_query(found, relevant) {
            *metrics.entry(name).or_default() += value / queries.vectors.len() as f64;
        }
    }
    metrics
}

/// Texts that differ, with the vector of the first of those that are equal, scaled to the length 1.
#[derive(Default)]
struct Texts<'a> {
    places: HashMap<&'a [u32], usize>,
    vectors: Vectors,
}

impl<'a> Texts<'a> {
    fn add(&mut self, ids: &'a [u32], vector: &[f32]) -> usize {
        let next = self.vectors.len();
        let place = *self.places.entry(ids).or_insert(next);
        if place == next {
            let length = dot(vector, vector).sqrt().max(f64::MIN_POSITIVE);
            let scaled = vector.iter().map(|value| (f64::from(*value) / length) as f32);
            self.vectors.width = vector.len();
            self.vectors.values.extend(scaled);
        }
        place
    }
}

/// The metrics of one query.
fn of_query(found: &[Candidate], relevant: &BTreeSet<usize>) -> Vec<(String, f64)> {
    let is_hit: Vec<bool> = found.iter().map(|it| relevant.contains(&it.text)).collect();
    let hits = |cutoff: usize| is_hit.iter().take(cutoff).filter(|hit| **hit).count() as f64;
    let wanted = relevant.len().max(1) as f64;
    let mut metrics = Vec::new();
    for cutoff in CUTOFFS {
        let hits = hits(cutoff);
        metrics.push((format!("cosine_accuracy@{cutoff}"), hits.min(1.0)));
        metrics.push((format!("cosine_precision@{cutoff}"), hits / cutoff as f64));
        metrics.push((format!("cosine_recall@{cutoff}"), hits / wanted));
    }
    let first = is_hit.iter().take(GAIN_CUTOFF).position(|hit| *hit);
    let gain = |rank: usize| 1.0 / (rank as f64 + 2.0).log2();
    let ranks = (0..GAIN_CUTOFF).filter(|rank| is_hit.get(*rank) == Some(&true));
    let best: f64 = (0..relevant.len().min(GAIN_CUTOFF)).map(gain).sum();
    metrics.extend([
        (
            format!("cosine_ndcg@{GAIN_CUTOFF}"),
            ranks.map(gain).sum::<f64>() / best.max(f64::MIN_POSITIVE),
        ),
        (format!("cosine_mrr@{GAIN_CUTOFF}"), first.map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0))),
        (format!("cosine_map@{PRECISION_CUTOFF}"), average_precision(&is_hit, relevant.len())),
    ]);
    metrics
}

fn average_precision(is_hit: &[bool], relevant: usize) -> f64 {
    let (mut hits, mut sum) = (0.0, 0.0);
    for (rank, _) in is_hit.iter().take(PRECISION_CUTOFF).enumerate().filter(|(_, hit)| **hit) {
        hits += 1.0;
        sum += hits / (rank as f64 + 1.0);
    }
    sum / relevant.clamp(1, PRECISION_CUTOFF) as f64
}

fn dot(a: &[f32], b: &[f32]) -> f64 {
    a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum()
}
