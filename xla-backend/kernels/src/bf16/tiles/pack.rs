//! Panels of sixteen lines, tile by tile: rows of the left factor or columns of the right one, rounded to bfloat16, and
//! of each the numbers of two neighbouring depths as a pair.

use std::arch::x86_64::{__m512i, _mm512_setzero_si512};

use super::registers::Tile;
use crate::bf16::product::Operand;
use crate::bf16::vector::{round, round_pairs, store_pairs};
use crate::vector::{LANES, load, prefetch, transposed};

/// The depth of a tile.
pub(super) const TILE_DEPTH: usize = 2 * LANES;

/// How many tiles of a panel, or panels, ahead memory is asked for.
const AHEAD: usize = 2;

/// The contents of a tile's lines.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum TileOf {
    /// Lines of the operand, as in the left factor.
    Lines,
    /// Pairs of depths, as in the right factor.
    Pairs,
}

/// Packs `lines` lines from `first` on, `depth` numbers of each from `start` on, into panels. Zeros fill what is
/// missing: `to` has as many tiles as whole pairs of panels have.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512bf16")]
pub(super) fn pack(
    to: &mut [Tile],
    from: Operand<'_>,
    tile_of: TileOf,
    [first, lines]: [usize; 2],
    [start, depth]: [usize; 2],
) {
    let steps = depth.div_ceil(TILE_DEPTH).max(1);
    let part = |line: usize, at: usize| Part {
        from,
        place: [first + line, start + at],
        sizes: [lines.saturating_sub(line).min(LANES), depth.saturating_sub(at).min(TILE_DEPTH)],
    };
    let panels = to.len() / steps;
    if from.depth_stride == 1 {
        let is_transposed = tile_of == TileOf::Pairs;
        for (panel, to) in to.chunks_exact_mut(steps).enumerate() {
            for (step, to) in to.iter_mut().enumerate() {
                let part = part(panel * LANES, step * TILE_DEPTH);
                write(to, part.lines(), is_transposed);
            }
        }
    } else {
        let is_transposed = tile_of == TileOf::Lines;
        for step in 0..steps {
            for panel in 0..panels {
                let part = part(panel * LANES, step * TILE_DEPTH);
                write(&mut to[panel * steps + step], part.pairs(), is_transposed);
            }
        }
    }
}

#[inline]
#[target_feature(enable = "avx512f")]
fn write(to: &mut Tile, vectors: [__m512i; LANES], is_transposed: bool) {
    let vectors = if is_transposed { transposed(vectors) } else { vectors };
    for (to, vector) in to.iter_mut().zip(vectors) {
        store_pairs(to, vector);
    }
}

/// The part of an operand that becomes a tile.
struct Part<'a> {
    from: Operand<'a>,
    /// The first line and the first depth.
    place: [usize; 2],
    /// Lines and depths, as far as there are any.
    sizes: [usize; 2],
}

impl Part<'_> {
    /// A vector for each line, whose depths are contiguous.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bf16")]
    fn lines(&self) -> [__m512i; LANES] {
        let ([line, start], [lines, depth]) = (self.place, self.sizes);
        let mut vectors = [_mm512_setzero_si512(); LANES];
        for (index, vector) in (0..lines).zip(&mut vectors) {
            let row = self.from.from(line + index, start);
            prefetch(row, AHEAD * TILE_DEPTH);
            let (low, high) = row[..depth].split_at(depth.min(LANES));
            *vector = round(load(low), load(high));
        }
        vectors
    }

    /// A vector for each pair of depths, whose lines are contiguous.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
    fn pairs(&self) -> [__m512i; LANES] {
        let ([line, start], [lines, depth]) = (self.place, self.sizes);
        let mut vectors = [_mm512_setzero_si512(); LANES];
        for (pair, vector) in vectors.iter_mut().enumerate() {
            let row = |at: usize| match at < depth {
                true => {
                    let row = self.from.from(line, start + at);
                    prefetch(row, AHEAD * LANES);
                    load(&row[..lines])
                }
                false => load(&[]),
            };
            *vector = round_pairs(row(2 * pair), row(2 * pair + 1));
        }
        vectors
    }
}
