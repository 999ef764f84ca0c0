//! The passes over the scores of a block: mask, softmax and dropout, and the gradients of these.

use std::ops::Range;

use super::Dims;
use super::block::columns;
use crate::dispatch::vectorized;
use crate::hash::{Dropout, PLACE_STRIDE, bits};
use crate::math::{LANES, exp, largest_of, sum_lanes};

/// The operands that the passes over rows of scores need.
pub(super) struct Rows<'a> {
    pub(super) dims: Dims,
    pub(super) queries: Range<usize>,
    pub(super) keys: Range<usize>,
    pub(super) scale: f32,
    /// The mask of the block's first query, and the distance to the next one's.
    pub(super) mask: &'a [f32],
    pub(super) mask_stride: usize,
    /// The first visible keys of the block's queries.
    pub(super) starts: Option<&'a [i32]>,
    pub(super) dropout: Option<(Dropout, [u32; 2])>,
}

impl Rows<'_> {
    fn columns(&self) -> usize {
        columns(self.keys.len())
    }

    /// The keys that a query of the block sees, counted from the block's first.
    fn visible(&self, row: usize) -> Range<usize> {
        match self.starts {
            None => 0..self.keys.len(),
            Some(starts) => {
                let query = self.queries.start + row;
                let start = first_key(starts[row], query).max(self.keys.start);
                start - self.keys.start..query + 1 - self.keys.start
            }
        }
    }

    /// The number that dropout gives to a query and the block's first key.
    fn place(&self, row: usize) -> u32 {
        let query = (self.queries.start + row) as u32;
        query.wrapping_mul(PLACE_STRIDE).wrapping_add(self.keys.start as u32)
    }
}

/// A query sees at least the key at its own position.
pub(super) fn first_key(start: i32, query: usize) -> usize {
    usize::try_from(start).unwrap_or(0).min(query)
}

pub(super) struct BackwardRows<'a> {
    pub(super) largest: &'a [f32],
    pub(super) sums: &'a [f32],
    pub(super) output: &'a [f32],
    pub(super) cotangent: &'a [f32],
}

/// Scales scores, adds the mask, and replaces those that are hidden or fill up the row by what
/// counts nothing.
#[inline(always)]
fn mask_row(at: &Rows<'_>, row: usize, scores: &mut [f32]) {
    let visible = at.visible(row);
    let mask = &at.mask[row * at.mask_stride..][at.keys.clone()];
    for (score, &mask) in scores[visible.clone()].iter_mut().zip(&mask[visible.clone()]) {
        *score = *score * at.scale + mask;
    }
    scores[..visible.start].fill(f32::NEG_INFINITY);
    scores[visible.end..].fill(f32::NEG_INFINITY);
}

vectorized! {
    /// Turns products into shares after dropout, in place, and returns the statistics of each row.
    pub(super) fn shares(at: &Rows<'_>, scores: &mut [f32], largest: &mut [f32], sums: &mut [f32]) {
        for (row, scores) in scores.chunks_exact_mut(at.columns()).enumerate() {
            mask_row(at, row, scores);
            let most = largest_of(scores);
            let mut lanes = [0f32; LANES];
            for chunk in scores.chunks_exact_mut(LANES) {
                for lane in 0..LANES {
                    chunk[lane] = exp(chunk[lane] - most);
                    lanes[lane] += chunk[lane];
                }
            }
            let sum = sum_lanes(lanes);
            (largest[row], sums[row]) = (most, sum);
            let share = 1.0 / sum;
            match at.dropout {
                None => scores.iter_mut().for_each(|score| *score *= share),
                Some((dropout, keys)) => {
                    let start = at.place(row);
                    for (column, score) in scores.iter_mut().enumerate() {
                        let bits = bits(start.wrapping_add(column as u32), keys);
                        *score = *score * share * dropout.factor(bits);
                    }
                }
            }
        }
    }

    /// From products to shares after dropout, in place, and from the shares' cotangents to
    /// the products', in place.
    pub(super) fn score_slopes(
        at: &Rows<'_>,
        pass: &BackwardRows<'_>,
        scores: &mut [f32],
        slopes: &mut [f32],
    ) {
        let (head_size, hidden) = (at.dims.head_size, at.dims.hidden());
        let rows = scores.chunks_exact_mut(at.columns()).zip(slopes.chunks_exact_mut(at.columns()));
        for (row, (scores, slopes)) in rows.enumerate() {
            mask_row(at, row, scores);
            slopes[at.keys.len()..].fill(0.0);
            // The sum of each share times its cotangent: what the output is made of.
            let output = &pass.output[row * hidden..][..head_size];
            let cotangent = &pass.cotangent[row * hidden..][..head_size];
            let along = dot(output, cotangent);
            let (most, share) = (pass.largest[row], 1.0 / pass.sums[row]);
            let pairs = scores.iter_mut().zip(slopes.iter_mut());
            match at.dropout {
                None => {
                    for (score, slope) in pairs {
                        let part = exp(*score - most) * share;
                        *score = part;
                        *slope = part * (*slope - along) * at.scale;
                    }
                }
                Some((dropout, keys)) => {
                    let start = at.place(row);
                    for (column, (score, slope)) in pairs.enumerate() {
                        let bits = bits(start.wrapping_add(column as u32), keys);
                        let factor = dropout.factor(bits);
                        let part = exp(*score - most) * share;
                        *score = part * factor;
                        *slope = part * (*slope * factor - along) * at.scale;
                    }
                }
            }
        }
    }
}

#[inline(always)]
fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut lanes = [0f32; LANES];
    let whole = a.len() / LANES * LANES;
    for (a, b) in a[..whole].chunks_exact(LANES).zip(b.chunks_exact(LANES)) {
        for lane in 0..LANES {
            lanes[lane] = a[lane].mul_add(b[lane], lanes[lane]);
        }
    }
    let rest: f32 = a[whole..].iter().zip(&b[whole..]).map(|(a, b)| a * b).sum();
    sum_lanes(lanes) + rest
}
