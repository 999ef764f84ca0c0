//! The arguments of kernels.
//!
//! M rows and N columns of the result, K depth.

use super::Addend;
use crate::matrix::Matrix;

/// The sizes and operands of a product.
#[derive(Clone, Copy, Debug)]
pub(super) struct Product<'a> {
    /// M, N and K.
    pub(super) sizes: [usize; 3],
    pub(super) lhs: Operand<'a>,
    pub(super) rhs: Operand<'a>,
    pub(super) addend: Addend<'a>,
}

impl<'a> Product<'a> {
    pub(super) fn new(lhs: Matrix<'a>, rhs: Matrix<'a>, addend: Addend<'a>) -> Product<'a> {
        let (left, right) = (lhs.layout, rhs.layout);
        Product {
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
        }
    }
}

/// A factor: line l at depth k is at `l * line_stride + k *
/// depth_stride`. One of the strides is 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Operand<'a> {
    pub(super) elements: &'a [f32],
    pub(super) line_stride: usize,
    pub(super) depth_stride: usize,
}

impl<'a> Operand<'a> {
    /// The elements from a line and a depth on, which may lie behind the end.
    pub(super) fn from(self, line: usize, depth: usize) -> &'a [f32] {
        let start = line * self.line_stride + depth * self.depth_stride;
        &self.elements[start.min(self.elements.len())..]
    }
}
