//! Products by tiles, block by block of rows and depth.

use super::tile::{BLOCK_ROWS, Operand, Target, equal_parts};
use super::{Layout, Matrix, MatrixMut, few_rows, row_panels};

/// The depth of a block.
const DEPTH: usize = 512;

/// The fewest elements of the right factor. Smaller products are those of attention's heads.
const ELEMENTS_MIN: usize = 1 << 14;

/// The order in which tiles read the factors.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// Vectors of packed rows, times numbers of a weight.
    FewRows,
    /// Vectors of the right factor's rows, times numbers of the left one.
    RowPanels,
}

impl Order {
    /// The order for a product for which tiles are faster than the crate gemm.
    pub(super) fn of(lhs: Layout, rhs: Layout) -> Option<Order> {
        if rhs.rows * rhs.columns < ELEMENTS_MIN {
            None
        } else if few_rows::takes(lhs, rhs) {
            Some(Order::FewRows)
        } else {
            row_panels::takes(lhs, rhs).then_some(Order::RowPanels)
        }
    }
}

/// `to = lhs rhs`, or with `accumulate` added to what is there.
#[target_feature(enable = "avx512f")]
pub(super) fn multiply(
    order: Order,
    to: MatrixMut<'_>,
    lhs: Matrix<'_>,
    rhs: Matrix<'_>,
    accumulate: bool,
) {
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
            let (lhs, rhs) = (lhs.from([row, start]), rhs.from([0, start]));
            match order {
                Order::FewRows => few_rows::multiply_block(to, lhs, rhs, sizes),
                Order::RowPanels => row_panels::multiply_block(to, lhs, rhs, sizes),
            }
        }
    }
}
