//! Panels of an operand: W rows of the left one or columns of the right one, rounded to bfloat16, and
//! of each the numbers of two neighbouring depths as a pair.
//!
//! W lines of a panel, K depth.

use std::arch::x86_64::_mm512_setzero_si512;

use crate::bf16::product::Operand;
use crate::bf16::vector::{round, round_pairs, store_pairs};
use crate::vector::{LANES, load, prefetch, transposed};

/// How far ahead memory is asked for, since processors foresee no more than a few streams: in numbers
/// along the depth, and in pairs of depths along the lines.
const NUMBERS_AHEAD: usize = 64;
const PAIRS_AHEAD: usize = 2;

/// Packs `lines` lines from `first` on, `depth` numbers of each from `start` on, into panels [ceil(lines
/// / W), pairs, W]. Zeros fill what is missing.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) fn pack<const W: usize>(
    to: &mut [[u32; W]],
    from: Operand<'_>,
    [first, lines]: [usize; 2],
    [start, depth]: [usize; 2],
) {
    let pairs = to.len() / lines.div_ceil(W).max(1);
    if from.depth_stride != 1 {
        return pack_along_lines(to, from, [first, lines], [start, depth], pairs);
    }
    for (panel, to) in to.chunks_exact_mut(pairs).enumerate() {
        let first_line = panel * W;
        let lines = W.min(lines - first_line);
        pack_along_depth(to, from, [first + first_line, start], [lines, depth]);
    }
}

/// Where neighbouring lines are contiguous: two depths of all lines are rounded together, and
/// interleaved.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn pack_along_lines<const W: usize>(
    to: &mut [[u32; W]],
    from: Operand<'_>,
    [first, lines]: [usize; 2],
    [start, depth]: [usize; 2],
    pairs: usize,
) {
    for pair in 0..pairs {
        let row = |at: usize| match at < depth {
            true => &from.from(first, start + at)[..lines],
            false => &[],
        };
        let (even, odd) = (row(2 * pair), row(2 * pair + 1));
        let ahead = 2 * (pair + PAIRS_AHEAD);
        let ahead = [row(ahead), row(ahead + 1)];
        for (panel, to) in to[pair..].iter_mut().step_by(pairs).enumerate() {
            for (part, to) in to.chunks_mut(LANES).enumerate() {
                let line = panel * W + part * LANES;
                ahead.iter().for_each(|row| prefetch(row, line));
                let vector = |row: &[f32]| load(row.get(line..).unwrap_or(&[]));
                store_pairs(to, round_pairs(vector(even), vector(odd)));
            }
        }
    }
}

/// Where neighbouring depths are contiguous: sixteen pairs of sixteen lines are transposed.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
fn pack_along_depth<const W: usize>(
    to: &mut [[u32; W]],
    from: Operand<'_>,
    [line, start]: [usize; 2],
    [lines, depth]: [usize; 2],
) {
    for (block, to) in to.chunks_mut(LANES).enumerate() {
        let first = block * 2 * LANES;
        let middle = depth.min(first + LANES);
        let last = depth.min(first + 2 * LANES);
        for part in (0..W).step_by(LANES) {
            let mut pairs = [_mm512_setzero_si512(); LANES];
            for (index, pairs) in (part..lines).zip(&mut pairs) {
                let row = from.from(line + index, start);
                prefetch(row, last + NUMBERS_AHEAD);
                *pairs = round(load(&row[first..middle]), load(&row[middle..last]));
            }
            let end = W.min(part + LANES);
            for (to, pairs) in to.iter_mut().zip(transposed(pairs)) {
                store_pairs(&mut to[part..end], pairs);
            }
        }
    }
}
