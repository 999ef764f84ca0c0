//! Products whose right factor has contiguous rows, as those of a layer's gradients: `to = lhs rhs`. Both factors are
//! read where they are: vectors of `rhs`, and numbers of `lhs`, which may be transposed. Packing them would take an
//! eighth of the time where a layer has a few hundred elements. They come from memory in a training step, so that what
//! the next tiles read and write is asked for ahead.
//!
//! M rows, N columns of the result, K depth.

use super::Layout;
use super::tile::{Operand, TILE, Target, equal_parts, write_rows};
use crate::scratch::with_panels;

/// The fewest rows, a tile.
const ROWS_MIN: usize = TILE[0];
/// The fewest columns, since each panel asks for the next one.
const COLUMNS_MIN: usize = 3 * TILE[1];
/// Rows of `rhs` that are a multiple of so many numbers apart share few sets of the second-level cache, and have to be
/// packed.
const FAR: usize = 1024;

/// Whether [`multiply_block`] takes a product, and is faster than others.
pub(super) fn takes(lhs: Layout, rhs: Layout) -> bool {
    lhs.rows >= ROWS_MIN
        && rhs.columns >= COLUMNS_MIN
        && rhs.column_stride == 1
        && !rhs.row_stride.is_multiple_of(FAR)
}

/// `to = lhs rhs` for a block of rows and depth.
#[target_feature(enable = "avx512f")]
pub(super) fn multiply_block(
    to: Target<'_>,
    lhs: Operand<'_>,
    rhs: Operand<'_>,
    sizes: [usize; 3],
) {
    let [rows, _, depth] = sizes;
    let panel = TILE[1] * depth;
    with_panels(panel + lhs.near_len([rows, depth]), |scratch| {
        let (panel, copy) = scratch.split_at_mut(panel);
        multiply_panels(to, lhs.near(copy, [rows, depth]), rhs, panel, sizes);
    });
}

#[target_feature(enable = "avx512f")]
fn multiply_panels(
    mut to: Target<'_>,
    lhs: Operand<'_>,
    rhs: Operand<'_>,
    panel: &mut [f32],
    [rows, columns, depth]: [usize; 3],
) {
    let [lines, width] = [equal_parts(rows, TILE[0]), TILE[1]];
    let ahead = depth.div_ceil(rows.div_ceil(lines));
    for column in (0..columns).step_by(width) {
        let width_used = width.min(columns - column);
        let vectors = rhs.from([column, 0]);
        let vectors =
            if width_used < width { packed(panel, vectors, [width_used, depth]) } else { vectors };
        let next = rhs.from([column + width, 0]);
        for (tile, row) in (0..rows).step_by(lines).enumerate() {
            let to = to.at([row, column]);
            let lines_used = lines.min(rows - row);
            to.prefetch(lines_used);
            for depth in tile * ahead..depth.min((tile + 1) * ahead) {
                next.prefetch([0, depth]);
            }
            if column == 0 {
                lhs.from([row + lines, 0]).prefetch_lines([lines, depth]);
            }
            write_rows(to, lhs.from([row, 0]), vectors, [lines_used, width_used, depth]);
        }
    }
}

/// Packs columns into a panel. What was left in memory stays in place of missing columns.
fn packed<'a>(
    panel: &'a mut [f32],
    from: Operand<'_>,
    [columns, depth]: [usize; 2],
) -> Operand<'a> {
    for (line, to) in panel.chunks_exact_mut(TILE[1]).take(depth).enumerate() {
        to[..columns].copy_from_slice(&from.from([0, line]).elements[..columns]);
    }
    Operand { elements: panel, strides: [1, TILE[1]] }
}
