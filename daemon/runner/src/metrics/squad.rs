//! Question answering: SQuAD's scores by the names of its scripts.

use traind_loader::squad::{Share, SquadScores};

use super::Metrics;

/// Returns `exact_match` and `f1`, or for version 2 `exact`, `f1` and both for questions with and
/// without an answer. All are percentages.
pub(crate) fn squad(scores: &SquadScores, version_2: bool) -> Metrics {
    let exact = if version_2 { "exact" } else { "exact_match" };
    let mut metrics =
        Metrics::from([(exact.to_owned(), scores.exact), ("f1".to_owned(), scores.f1)]);
    if version_2 {
        metrics.insert("total".to_owned(), scores.total as f64);
        metrics.extend(share("HasAns", &scores.has_answer));
        metrics.extend(share("NoAns", &scores.no_answer));
    }
    metrics
}

/// Returns the scores for questions of one kind.
fn share(kind: &str, share: &Share) -> Vec<(String, f64)> {
    let scores = [("exact", share.exact), ("f1", share.f1), ("total", share.total as f64)];
    let named = scores.map(|(name, value)| (format!("{kind}_{name}"), value));
    named.to_vec()
}
