//! Products for processors that do not multiply bfloat16 numbers: operands are rounded block by block, and multiplied
//! as float32 numbers, which makes the products exact.

use super::Addend;
use crate::dispatch::vectorized;
use crate::math::LANES;
use crate::matrix::{self, Matrix, MatrixMut};
use crate::scratch::with_scratch;
use crate::sum::add;

/// The most rows, columns and depths of a block. With so many, a number is rounded in a small part of the time of its
/// products.
const BLOCK: usize = 1024;

/// `to = lhs rhs + addend`, of operands rounded to bfloat16.
pub(super) fn multiply(
    mut to: MatrixMut<'_>,
    lhs: Matrix<'_>,
    rhs: Matrix<'_>,
    addend: Addend<'_>,
) {
    let (rows, columns, depth) = (lhs.rows(), rhs.columns(), lhs.columns());
    let lines = BLOCK.min(rows.max(columns));
    let len = (lines * depth.min(BLOCK)).next_multiple_of(LANES);
    with_scratch(len, |[left, right]| {
        // Without depths there are sums as well.
        for start in (0..depth.max(1)).step_by(BLOCK) {
            let depths = start..depth.min(start + BLOCK);
            let adds = start > 0 || matches!(addend, Addend::Sum);
            for column in (0..columns).step_by(BLOCK) {
                let columns = column..columns.min(column + BLOCK);
                let rhs = rounded(right, rhs.block(depths.clone(), columns));
                for row in (0..rows).step_by(BLOCK) {
                    let rows = row..rows.min(row + BLOCK);
                    let lhs = rounded(left, lhs.block(rows, depths.clone()));
                    let to = to.block([row, column], [lhs.rows(), rhs.columns()]);
                    matrix::multiply(to, lhs, rhs, adds);
                }
            }
        }
    });
    if let Addend::Bias(bias) = addend
        && !bias.is_empty()
    {
        to.rows_mut().for_each(|row| add(row, bias));
    }
}

/// A matrix of the rounded elements, in the same order.
fn rounded<'to>(to: &'to mut [f32], from: Matrix<'_>) -> Matrix<'to> {
    if !from.has_contiguous_rows() {
        return rounded(to, from.transposed()).transposed();
    }
    let (rows, columns) = (from.rows(), from.columns());
    for (row, to) in (0..rows).zip(to.chunks_exact_mut(columns.max(1))) {
        round(to, from.row(row));
    }
    Matrix::new(&to[..rows * columns], [rows, columns], columns)
}

const SIGN_CLEARED: u32 = 0x7fff_ffff;
const INFINITY: u32 = 0x7f80_0000;

vectorized! {
    /// Rounds to the nearest bfloat16 numbers; ties go to the even ones.
    fn round(to: &mut [f32], from: &[f32]) {
        for (to, from) in to.iter_mut().zip(from) {
            let bits = from.to_bits();
            let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) & 0xffff_0000;
            // The carry would turn some of them into numbers.
            let is_nan = bits & SIGN_CLEARED > INFINITY;
            *to = f32::from_bits(if is_nan { bits } else { rounded });
        }
    }
}
