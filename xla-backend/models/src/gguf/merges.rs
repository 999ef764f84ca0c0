//! The merges of a vocabulary of SentencePiece, which has scores in their place.

use std::collections::HashMap;

/// Returns all pairs of tokens that make a third one, best first: transformers' `generate_merges`.
pub(super) fn merges(tokens: &[&str], scores: &[f64]) -> Vec<[String; 2]> {
    let ids: HashMap<&str, usize> = tokens.iter().copied().zip(0..).collect();
    let mut merges: Vec<(f64, usize, usize, [&str; 2])> = Vec::new();
    for (token, score) in tokens.iter().zip(scores) {
        let mut pairs: Vec<[&str; 2]> = token
            .char_indices()
            .skip(1)
            .map(|(at, _)| token.split_at(at))
            .filter(|(left, right)| ids.contains_key(left) && ids.contains_key(right))
            .map(|(left, right)| [left, right])
            .collect();
        pairs.sort_by_key(|[left, right]| (ids[left], ids[right]));
        let sized = |[left, right]: [&'_ str; 2]| (left.chars().count(), right.chars().count());
        merges.extend(pairs.into_iter().map(|pair| {
            let (left, right) = sized(pair);
            (*score, left, right, pair)
        }));
    }
    // The longest first where scores are equal, and otherwise in the order found.
    merges.sort_by(|a, b| b.0.total_cmp(&a.0).then((b.1, b.2).cmp(&(a.1, a.2))));
    merges.into_iter().map(|(.., pair)| pair.map(str::to_owned)).collect()
}
