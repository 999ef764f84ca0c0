//! Exact search for the nearest texts of queries, in blocks that fit into the cores' caches.

use rayon::prelude::*;

use super::Vectors;

/// Queries that pass over the texts together.
const QUERIES: usize = 32;
/// Texts that are compared with all of them before the next: half a megabyte of vectors with 384 numbers.
const TEXTS: usize = 256;
/// Numbers that are multiplied side by side.
const LANES: usize = 16;

/// A text with its similarity to a query.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Candidate {
    pub text: usize,
    pub score: f32,
}

/// The `count` nearest texts of each query, the nearest first; of equal ones, the first.
pub(crate) fn nearest(queries: &Vectors, texts: &Vectors, count: usize) -> Vec<Vec<Candidate>> {
    let blocks: Vec<usize> = (0..queries.len()).step_by(QUERIES).collect();
    let found = blocks.par_iter().map(|first| {
        let block = *first..(first + QUERIES).min(queries.len());
        of_block(queries, texts, block, count)
    });
    found.flatten_iter().collect()
}

fn of_block(
    queries: &Vectors,
    texts: &Vectors,
    block: std::ops::Range<usize>,
    count: usize,
) -> Vec<Vec<Candidate>> {
    let mut best: Vec<Vec<Candidate>> = block.clone().map(|_| Vec::new()).collect();
    for first in (0..texts.len()).step_by(TEXTS) {
        let last = (first + TEXTS).min(texts.len());
        for (query, best) in block.clone().zip(&mut best) {
            let query = queries.of(query);
            best.extend(
                (first..last)
                    .map(|text| Candidate { text, score: similarity(query, texts.of(text)) }),
            );
            keep(best, count);
        }
    }
    for best in &mut best {
        best.sort_by(by_score);
    }
    best
}

/// Leaves the `count` best, in any order.
fn keep(best: &mut Vec<Candidate>, count: usize) {
    if best.len() > count {
        best.select_nth_unstable_by(count, by_score);
        best.truncate(count);
    }
}

fn by_score(one: &Candidate, other: &Candidate) -> std::cmp::Ordering {
    other.score.total_cmp(&one.score).then(one.text.cmp(&other.text))
}

/// The product of two vectors.
pub(crate) fn similarity(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
    let rest: f32 = a.remainder().iter().zip(b.remainder()).map(|(a, b)| a * b).sum();
    for (a, b) in a.zip(b) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    sums.iter().sum::<f32>() + rest
}
