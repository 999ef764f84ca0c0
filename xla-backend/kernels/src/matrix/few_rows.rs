//! Products of few rows with a weight [out, in], as in the forward pass of a layer: `to = lhs rhs`, where the columns
//! of `rhs` are contiguous. A weight has more elements than the rows, so it is read where it is, a number at a time,
//! and the rows are packed into vectors. Packing the weight would take a quarter of the time of two hundred rows.
//!
//! M rows, N columns of the result, K depth.

use super::Layout;
use super::tile::{BLOCK_ROWS, Operand, TILE, Target, equal_parts, write_columns};
use crate::scratch::with_panels;
use crate::vector::{LANES, load, store, transposed_floats};

/// The depth of a weight that is packed in the time of the products of `BLOCK_ROWS` rows with it.
const NARROW_DEPTH: usize = 384;
/// The most blocks of rows that read a weight of any depth where it is.
const BLOCKS_MAX: usize = 4;
/// The fewest rows, which fill a vector.
const ROWS_MIN: usize = LANES;

/// Whether [`multiply_block`] takes a product, and is faster than others.
pub(super) fn takes(lhs: Layout, rhs: Layout) -> bool {
    // With more rows, packing the weight pays.
    let rows_max = BLOCK_ROWS * (lhs.columns / NARROW_DEPTH).clamp(1, BLOCKS_MAX);
    (ROWS_MIN..=rows_max).contains(&lhs.rows) && rhs.row_stride == 1
}

/// `to = lhs rhs` for a block of rows and depth.
#[target_feature(enable = "avx512f")]
pub(super) fn multiply_block(
    mut to: Target<'_>,
    lhs: Operand<'_>,
    rhs: Operand<'_>,
    [rows, columns, depth]: [usize; 3],
) {
    let [lines, width] = [equal_parts(columns, TILE[0]), TILE[1]];
    let panels = rows.div_ceil(width);
    let packed = panels * width * depth;
    with_panels(packed + rhs.near_len([lines, depth]), |scratch| {
        let (packed, copy) = scratch.split_at_mut(packed);
        for (panel, to) in packed.chunks_exact_mut(width * depth).enumerate() {
            let row = panel * width;
            pack(to, lhs.from([row, 0]), [width.min(rows - row), depth]);
        }
        let ahead = lines.div_ceil(panels);
        for column in (0..columns).step_by(lines) {
            let next = rhs.from([column + lines, 0]);
            let lines = lines.min(columns - column);
            let rhs = rhs.from([column, 0]).near(copy, [lines, depth]);
            for (panel, vectors) in packed.chunks_exact(width * depth).enumerate() {
                // A share of the weight for the next tiles.
                for line in panel * ahead..(panel + 1) * ahead {
                    (0..depth).step_by(2 * LANES).for_each(|depth| next.prefetch([line, depth]));
                }
                let row = panel * width;
                let vectors = Operand { elements: vectors, strides: [1, width] };
                let sizes = [lines, width.min(rows - row), depth];
                let to = to.at([row, column]);
                to.prefetch(sizes[1]);
                write_columns(to, rhs, vectors, sizes);
            }
        }
    });
}

/// Packs lines as the numbers of vectors. What was left in memory stays in place of missing lines.
#[target_feature(enable = "avx512f")]
fn pack(to: &mut [f32], from: Operand<'_>, [lines, depth]: [usize; 2]) {
    let width = TILE[1];
    if from.strides[0] == 1 {
        for (depth, to) in to.chunks_exact_mut(width).enumerate() {
            to[..lines].copy_from_slice(&from.from([0, depth]).elements[..lines]);
        }
        return;
    }
    for first in (0..depth).step_by(LANES) {
        let depth = LANES.min(depth - first);
        for part in (0..lines).step_by(LANES) {
            let mut rows = [load(&[]); LANES];
            for (line, row) in (part..lines).zip(&mut rows) {
                from.prefetch([line + width, first]);
                *row = load(&from.from([line, first]).elements[..depth]);
            }
            let vectors = transposed_floats(rows).into_iter().take(depth);
            for (vector, to) in vectors.zip(to.chunks_exact_mut(width).skip(first)) {
                store(&mut to[part..part + LANES], vector);
            }
        }
    }
}
