//! Products of few rows with a weight [out, in], as in the forward pass of a layer: `to = lhs rhs`, where the columns
//! of `rhs` are contiguous. A weight has more elements than the rows, so it is read where it is, a number at a time,
//! and the rows are packed into vectors. Packing the weight would take a quarter of the time of two hundred rows.
//!
//! M rows, N columns of the result, K depth.

use super::tile::{Operand, TILE, Target, write_tile};
use super::{Layout, Matrix, MatrixMut};
use crate::scratch::with_panels;
use crate::vector::{LANES, load, store, transposed_floats};

/// The most rows of a block, whose panels stay in the second-level cache.
const BLOCK_ROWS: usize = 256;
/// The depth from which on packing a weight takes longer, since the distance between its lines is a multiple of that
/// between sets of the first-level cache.
const FAR_DEPTH: usize = 1024;
/// The fewest rows, which fill a vector.
const ROWS_MIN: usize = LANES;
/// The fewest elements of a weight. Smaller products are those of attention's heads.
const WEIGHT_MIN: usize = 1 << 14;
/// The depth of a block.
const DEPTH: usize = 512;

/// Whether [`multiply`] takes a product, and is faster than others.
pub(super) fn takes(lhs: Layout, rhs: Layout) -> bool {
    // With more rows, packing the weight pays.
    let rows_max = if lhs.columns < FAR_DEPTH { BLOCK_ROWS } else { 2 * BLOCK_ROWS };
    (ROWS_MIN..=rows_max).contains(&lhs.rows)
        && rhs.row_stride == 1
        && rhs.rows * rhs.columns >= WEIGHT_MIN
}

/// `to = lhs rhs`, or with `accumulate` added to what is there.
#[target_feature(enable = "avx512f")]
pub(super) fn multiply(to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, accumulate: bool) {
    let MatrixMut { elements: to, layout: to_layout } = to;
    let (left, right) = (lhs.layout, rhs.layout);
    let lhs = Operand { elements: lhs.elements, strides: [left.row_stride, left.column_stride] };
    let rhs = Operand { elements: rhs.elements, strides: [right.column_stride, right.row_stride] };
    let [rows, depth] = [equal_parts(left.rows, BLOCK_ROWS), equal_parts(left.columns, DEPTH)];
    for start in (0..left.columns).step_by(depth) {
        for row in (0..left.rows).step_by(rows) {
            let sizes = [rows.min(left.rows - row), right.columns, depth.min(left.columns - start)];
            let stride = to_layout.row_stride;
            let adds = accumulate || start > 0;
            let to = Target { elements: &mut to[row * stride..], stride, adds };
            multiply_block(to, lhs.from([row, start]), rhs.from([0, start]), sizes);
        }
    }
}

/// The size of the fewest equal parts of `count` that are at most `most` each.
fn equal_parts(count: usize, most: usize) -> usize {
    count.div_ceil(count.div_ceil(most).max(1)).max(1)
}

#[target_feature(enable = "avx512f")]
fn multiply_block(
    mut to: Target<'_>,
    lhs: Operand<'_>,
    rhs: Operand<'_>,
    [rows, columns, depth]: [usize; 3],
) {
    let [lines, width] = [equal_parts(columns, TILE[0]), TILE[1]];
    let panels = rows.div_ceil(width);
    with_panels(panels * width * depth, |packed| {
        for (panel, to) in packed.chunks_exact_mut(width * depth).enumerate() {
            let row = panel * width;
            pack(to, lhs.from([row, 0]), [width.min(rows - row), depth]);
        }
        let ahead = lines.div_ceil(panels);
        for column in (0..columns).step_by(lines) {
            let next = rhs.from([column + lines, 0]);
            for (panel, vectors) in packed.chunks_exact(width * depth).enumerate() {
                // A share of the weight for the next tiles.
                for line in panel * ahead..lines.min((panel + 1) * ahead) {
                    (0..depth).step_by(2 * LANES).for_each(|depth| next.prefetch([line, depth]));
                }
                let row = panel * width;
                let vectors = Operand { elements: vectors, strides: [1, width] };
                let sizes = [lines.min(columns - column), width.min(rows - row), depth];
                write_tile(to.at([row, column]), rhs.from([column, 0]), vectors, sizes);
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
                *row = load(&from.from([line, first]).elements[..depth]);
            }
            let vectors = transposed_floats(rows).into_iter().take(depth);
            for (vector, to) in vectors.zip(to.chunks_exact_mut(width).skip(first)) {
                store(&mut to[part..part + LANES], vector);
            }
        }
    }
}
