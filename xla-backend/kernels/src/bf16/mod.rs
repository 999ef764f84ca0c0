//! Products of float32 matrices whose operands are rounded to bfloat16 first and that are summed in float32. On
//! processors that multiply pairs of bfloat16 numbers, they are twice as fast as others.

#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(target_arch = "x86_64")]
mod product;
mod rounded;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::matrix::{Matrix, MatrixMut};

/// The matrix to which a product is added.
#[derive(Clone, Copy, Debug)]
pub enum Addend<'a> {
    /// An element for each column. An empty one counts as zeros.
    Bias(&'a [f32]),
    /// The elements that the result holds.
    Sum,
}

/// `to = lhs rhs + addend`, of operands rounded to bfloat16.
pub fn multiply(to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, addend: Addend<'_>) {
    let sizes = [lhs.rows(), rhs.columns()];
    assert_eq!(rhs.rows(), lhs.columns(), "the operands do not match");
    assert_eq!([to.layout.rows, to.layout.columns], sizes, "the result is of other shape");
    if let Addend::Bias(bias) = addend {
        assert!(bias.is_empty() || bias.len() == rhs.columns(), "the bias is of other width");
    }
    #[cfg(target_arch = "x86_64")]
    if multiplies_pairs() {
        return multiply_pairs(to, lhs, rhs, addend);
    }
    rounded::multiply(to, lhs, rhs, addend);
}

/// Whether this processor multiplies pairs of bfloat16 numbers, by AVX512-BF16.
#[cfg(target_arch = "x86_64")]
fn multiplies_pairs() -> bool {
    use crate::dispatch::Level;
    Level::of_processor() == Level::Avx512 && is_x86_feature_detected!("avx512bf16")
}

/// [`multiply`] on processors that [multiply pairs](multiplies_pairs).
#[cfg(target_arch = "x86_64")]
fn multiply_pairs(to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, addend: Addend<'_>) {
    use pack::Operand;
    use product::Product;
    let (left, right) = (lhs.layout, rhs.layout);
    let product = Product {
        sizes: [left.rows, right.columns, left.columns],
        lhs: Operand {
            elements: lhs.elements,
            line_stride: left.row_stride,
            depth_stride: left.column_stride,
        },
        rhs: Operand {
            elements: rhs.elements,
            line_stride: right.column_stride,
            depth_stride: right.row_stride,
        },
        addend,
    };
    #[allow(unsafe_code, reason = "the call into code for instructions that not all have")]
    // SAFETY: the processor was asked for these instructions.
    unsafe {
        product::multiply(&product, to.elements, to.layout.row_stride);
    }
}
