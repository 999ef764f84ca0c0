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

#[cfg(test)]
mod tests {
    use super::*;

    /// Where the processor multiplies pairs, this is what others do.
    #[test]
    fn products_are_those_of_instructions_for_bfloat16() {
        let numbers = |count: u32, factor: u32| -> Vec<f32> {
            let number = |index: u32| (index.wrapping_mul(factor) >> 8) as f32 / 8_388_608.0 - 1.0;
            (1..=count).map(number).collect()
        };
        let [rows, columns, depth] = [5, 1030, 1100];
        let (lhs, rhs) = (numbers(5 * 1100, 0x9e37_79b9), numbers(1030 * 1100, 0x85eb_ca6b));
        let lhs = Matrix::new(&lhs, [rows, depth], depth);
        let rhs = Matrix::new(&rhs, [columns, depth], depth).transposed();
        let bias = vec![0.5; columns];
        let results = [super::super::multiply, multiply].map(|multiply| {
            let mut result = vec![0.0; rows * columns];
            let to = MatrixMut::new(&mut result, [rows, columns], columns);
            multiply(to, lhs, rhs, Addend::Bias(&bias));
            result
        });
        for (one, other) in results[0].iter().zip(&results[1]) {
            // A thousand products below 1, which are added in another order.
            assert!((one - other).abs() < 1e-4, "{one}, {other}");
        }
    }
}
