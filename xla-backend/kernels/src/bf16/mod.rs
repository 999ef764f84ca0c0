//! Products of float32 matrices whose operands are rounded to bfloat16 first and that are summed in
//! float32: on processors that multiply pairs of bfloat16 numbers, twice as fast as others.

#[cfg(target_arch = "x86_64")]
mod pack;
#[cfg(target_arch = "x86_64")]
mod product;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::matrix::{Matrix, MatrixMut};

/// Whether this processor multiplies pairs of bfloat16 numbers, by AVX512-BF16.
#[cfg(target_arch = "x86_64")]
pub fn is_supported() -> bool {
    use crate::dispatch::Level;
    Level::of_processor() == Level::Avx512 && is_x86_feature_detected!("avx512bf16")
}

#[cfg(not(target_arch = "x86_64"))]
pub fn is_supported() -> bool {
    false
}

/// The matrix to which a product is added.
#[derive(Clone, Copy, Debug)]
pub enum Addend<'a> {
    /// An element for each column. An empty one counts as zeros.
    Bias(&'a [f32]),
    /// The elements that the result holds.
    Sum,
}

/// `to = lhs rhs + addend`, of operands rounded to bfloat16. Panics on processors that are not
/// [supported](is_supported).
#[cfg(target_arch = "x86_64")]
pub fn multiply(to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, addend: Addend<'_>) {
    use pack::Operand;
    use product::Product;
    assert!(is_supported(), "the processor multiplies no bfloat16 numbers");
    let (MatrixMut { elements: to, layout: to_layout }, left, right) = (to, lhs.layout, rhs.layout);
    let (rows, columns, depth) = (left.rows, right.columns, left.columns);
    assert_eq!(right.rows, depth, "the operands do not match");
    assert_eq!(
        [to_layout.rows, to_layout.columns],
        [rows, columns],
        "the result is of other shape"
    );
    if let Addend::Bias(bias) = addend {
        assert!(bias.is_empty() || bias.len() == columns, "the bias is of other width");
    }
    let product = Product {
        sizes: [rows, columns, depth],
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
        product::multiply(&product, to, to_layout.row_stride);
    }
}

#[cfg(not(target_arch = "x86_64"))]
pub fn multiply(_to: MatrixMut<'_>, _lhs: Matrix<'_>, _rhs: Matrix<'_>, _addend: Addend<'_>) {
    panic!("the processor multiplies no bfloat16 numbers");
}
