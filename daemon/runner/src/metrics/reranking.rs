//! Scored pairs: relevance against a threshold, correlations with scores, and the order of passages, under the names
//! that sentence-transformers' evaluators of cross encoders give them.

use super::Metrics;
use super::averages::ratio;
use super::regression::{pearson, ranks};

/// The cutoff of the reciprocal rank and of the discounted gain.
const CUTOFF: usize = 10;

/// The passages of a query.
pub(crate) struct Ranked {
    pub scores: Vec<f32>,
    pub is_relevant: Vec<bool>,
}

/// Returns the best accuracy and F1 of any threshold of `scores`, and their average precision, as
/// `CrossEncoderClassificationEvaluator` has them.
pub(crate) fn relevance(scores: &[f32], is_relevant: &[bool]) -> Metrics {
    let groups = groups(scores, is_relevant);
    let (accuracy, accuracy_threshold) = best_accuracy(&groups);
    let F1 { f1, precision, recall, threshold } = best_f1(&groups);
    let metrics = [
        ("accuracy", accuracy),
        ("accuracy_threshold", accuracy_threshold),
        ("f1", f1),
        ("f1_threshold", threshold),
        ("precision", precision),
        ("recall", recall),
        ("average_precision", average_precision(&groups)),
    ];
    metrics.map(|(name, value)| (name.to_owned(), value)).into()
}

/// Returns the correlations of scores with labels, as `CrossEncoderCorrelationEvaluator` has them.
pub(crate) fn correlation(scores: &[f32], labels: &[f32]) -> Metrics {
    let [scores, labels] =
        [scores, labels].map(|values| values.iter().copied().map(f64::from).collect::<Vec<_>>());
    Metrics::from([
        ("pearson".to_owned(), pearson(&labels, &scores)),
        ("spearman".to_owned(), pearson(&ranks(&labels), &ranks(&scores))),
    ])
}

/// Returns how far ahead the relevant passages of queries are, as `CrossEncoderRerankingEvaluator` has it. A query
/// without a relevant passage counts as 0.
pub(crate) fn reranking(queries: &[Ranked]) -> Metrics {
    let mut sums = [0.0; 3];
    for query in queries.iter().filter(|query| query.is_relevant.contains(&true)) {
        let groups = groups(&query.scores, &query.is_relevant);
        let found = [average_precision(&groups), reciprocal_rank(query), gain(&groups)];
        sums.iter_mut().zip(found).for_each(|(sum, value)| *sum += value);
    }
    let names = ["map".to_owned(), format!("mrr@{CUTOFF}"), format!("ndcg@{CUTOFF}")];
    names.into_iter().zip(sums.map(|sum| ratio(sum, queries.len() as f64))).collect()
}

/// Rows with equal scores.
struct Group {
    score: f32,
    relevant: usize,
    count: usize,
}

/// The rows by their scores, the highest first.
fn groups(scores: &[f32], is_relevant: &[bool]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    for row in order(scores) {
        let (score, relevant) = (scores[row], usize::from(is_relevant[row]));
        match groups.last_mut() {
            Some(group) if group.score == score => {
                group.relevant += relevant;
                group.count += 1;
            }
            _ => groups.push(Group { score, relevant, count: 1 }),
        }
    }
    groups
}

/// The rows by their scores, the highest first; of equal ones the last first, as NumPy has a reversed order.
fn order(scores: &[f32]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..scores.len()).collect();
    order.sort_by(|one, other| scores[*other].total_cmp(&scores[*one]).then(other.cmp(one)));
    order
}

/// The threshold behind a group: between its score and the next.
fn threshold(groups: &[Group], place: usize) -> f32 {
    let score = groups[place].score;
    match groups.get(place + 1) {
        // A rounded middle must not take in the next group.
        Some(next) if (score + next.score) / 2.0 != next.score => (score + next.score) / 2.0,
        _ => score,
    }
}

fn best_accuracy(groups: &[Group]) -> (f64, f64) {
    let rows: usize = groups.iter().map(|group| group.count).sum();
    let relevant: usize = groups.iter().map(|group| group.relevant).sum();
    let Some(first) = groups.first() else { return (0.0, -1.0) };
    // To begin with, no row is found relevant.
    let mut correct = rows - relevant;
    let (mut most, mut best) = (correct, first.score.next_up());
    for (place, group) in groups.iter().enumerate() {
        correct = correct + group.relevant - (group.count - group.relevant);
        if correct > most {
            (most, best) = (correct, threshold(groups, place));
        }
    }
    (ratio(most as f64, rows as f64), best.into())
}

#[derive(Default)]
struct F1 {
    f1: f64,
    precision: f64,
    recall: f64,
    threshold: f64,
}

fn best_f1(groups: &[Group]) -> F1 {
    let relevant: usize = groups.iter().map(|group| group.relevant).sum();
    let (mut best, mut found, mut correct) = (F1::default(), 0, 0);
    for (place, group) in groups.iter().enumerate() {
        found += group.count;
        correct += group.relevant;
        if correct == 0 {
            continue;
        }
        let (precision, recall) = (correct as f64 / found as f64, correct as f64 / relevant as f64);
        let f1 = 2.0 * precision * recall / (precision + recall);
        if f1 > best.f1 {
            best = F1 { f1, precision, recall, threshold: threshold(groups, place).into() };
        }
    }
    best
}

/// The area under precision against recall, as scikit-learn has it.
fn average_precision(groups: &[Group]) -> f64 {
    let relevant: usize = groups.iter().map(|group| group.relevant).sum();
    let (mut found, mut correct, mut sum) = (0, 0, 0.0);
    for group in groups {
        found += group.count;
        correct += group.relevant;
        sum += group.relevant as f64 * correct as f64 / found as f64;
    }
    ratio(sum, relevant as f64)
}

fn reciprocal_rank(query: &Ranked) -> f64 {
    let mut first = order(&query.scores).into_iter().take(CUTOFF);
    first.position(|row| query.is_relevant[row]).map_or(0.0, |rank| 1.0 / (rank as f64 + 1.0))
}

/// The discounted gain of the first passages by the best one. Equal scores share the mean of their places.
fn gain(groups: &[Group]) -> f64 {
    let discount = |rank: usize| match rank < CUTOFF {
        true => 1.0 / (rank as f64 + 2.0).log2(),
        false => 0.0,
    };
    let (mut rank, mut sum, mut relevant) = (0, 0.0, 0);
    for group in groups {
        let places: f64 = (rank..rank + group.count).map(discount).sum();
        sum += places * group.relevant as f64 / group.count as f64;
        rank += group.count;
        relevant += group.relevant;
    }
    ratio(sum, (0..relevant).map(discount).sum())
}
