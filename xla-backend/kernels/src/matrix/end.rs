//! The end of a product: rows whose results are known without multiplying them.
//!
//! Where layers compute the tokens of a batch without its padding, the slots behind the last token are the last rows of
//! every matrix. They are equal in forward passes, and zeros in gradients.

use super::{Layout, Matrix, MatrixMut};

/// The elements that are compared before it is known whether others have to be.
const COMPARED_AT_ONCE: usize = 64;
const MAGNITUDE: u32 = 0x7fff_ffff;
const INFINITY: u32 = 0x7f80_0000;

/// Computes a product by `multiply`, but for its end: zeros at the end of the sums add nothing, and equal rows at the
/// end of `lhs` have equal results. `accumulates`: the product is added to what is there, which is another in each row.
pub fn without_end(
    to: MatrixMut<'_>,
    lhs: Matrix<'_>,
    rhs: Matrix<'_>,
    accumulates: bool,
    multiply: impl FnOnce(MatrixMut<'_>, Matrix<'_>, Matrix<'_>),
) {
    let MatrixMut { elements, layout } = to;
    let depth = depth_without_zeros(lhs, rhs);
    let rows = if accumulates { layout.rows } else { distinct_rows(lhs) };
    let computed = Layout { rows, ..layout };
    let lhs = Matrix { layout: Layout { rows, columns: depth, ..lhs.layout }, ..lhs };
    let rhs = Matrix { layout: Layout { rows: depth, ..rhs.layout }, ..rhs };
    multiply(MatrixMut { elements: &mut *elements, layout: computed }, lhs, rhs);
    for row in rows..layout.rows {
        let last = (rows - 1) * layout.row_stride;
        elements.copy_within(last..last + layout.columns, row * layout.row_stride);
    }
}

/// The rows up to the first of those at the end that are equal.
fn distinct_rows(matrix: Matrix<'_>) -> usize {
    let rows = matrix.layout.rows;
    if rows == 0 || matrix.layout.column_stride != 1 {
        return rows;
    }
    let last = matrix.row(rows - 1);
    let equal = (0..rows - 1).rev().take_while(|row| are_equal(matrix.row(*row), last));
    rows - equal.count()
}

/// The depth up to the first of the rows at the end that add zeros alone, and at least 1.
fn depth_without_zeros(lhs: Matrix<'_>, rhs: Matrix<'_>) -> usize {
    let (lhs, depth) = (lhs.transposed(), rhs.layout.rows);
    if lhs.layout.column_stride != 1 || rhs.layout.column_stride != 1 {
        return depth;
    }
    let adds_nothing = |row: &usize| {
        let (lhs, rhs) = (lhs.row(*row), rhs.row(*row));
        is_zero(lhs) && is_finite(rhs) || is_zero(rhs) && is_finite(lhs)
    };
    depth - (1..depth).rev().take_while(adds_nothing).count()
}

impl<'a> Matrix<'a> {
    /// A row of contiguous elements.
    pub(crate) fn row(self, row: usize) -> &'a [f32] {
        &self.elements[row * self.layout.row_stride..][..self.layout.columns]
    }
}

/// Whether rows have the same bits.
fn are_equal(a: &[f32], b: &[f32]) -> bool {
    let differing = |(a, b): (&[f32], &[f32])| {
        a.iter().zip(b).fold(0, |bits, (a, b)| bits | (a.to_bits() ^ b.to_bits()))
    };
    a.chunks(COMPARED_AT_ONCE).zip(b.chunks(COMPARED_AT_ONCE)).all(|pair| differing(pair) == 0)
}

fn is_zero(row: &[f32]) -> bool {
    let bits = |row: &[f32]| row.iter().fold(0, |bits, x| bits | x.to_bits());
    row.chunks(COMPARED_AT_ONCE).all(|row| bits(row) & MAGNITUDE == 0)
}

/// Whether a product with zero is zero.
fn is_finite(row: &[f32]) -> bool {
    row.iter().fold(0, |most, x| most.max(x.to_bits() & MAGNITUDE)) < INFINITY
}
