//! Products of float32 matrices, which may be transposed or parts of larger ones.

#[cfg(target_arch = "x86_64")]
mod blocks;
mod end;
#[cfg(target_arch = "x86_64")]
mod few_rows;
#[cfg(target_arch = "x86_64")]
mod row_panels;
#[cfg(target_arch = "x86_64")]
mod tile;

use std::ops::Range;

use gemm_common::Parallelism;

#[cfg(target_arch = "x86_64")]
use crate::dispatch::Level;
use crate::sum::add;

#[cfg(target_arch = "x86_64")]
use blocks::Order;
pub use end::without_end;
#[cfg(target_arch = "x86_64")]
pub(crate) use tile::equal_parts;

/// A matrix in a slice: element (i, j) is at `i * row_stride + j * column_stride`.
#[derive(Clone, Copy, Debug)]
pub struct Matrix<'a> {
    pub(crate) elements: &'a [f32],
    pub(crate) layout: Layout,
}

/// A matrix whose rows are contiguous, to be written.
#[derive(Debug)]
pub struct MatrixMut<'a> {
    pub(crate) elements: &'a mut [f32],
    pub(crate) layout: Layout,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Layout {
    pub(crate) rows: usize,
    pub(crate) columns: usize,
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

impl Layout {
    /// Panics where an element would lie outside of `len` elements.
    fn check(self, len: usize) -> Layout {
        if self.rows > 0 && self.columns > 0 {
            let last = (self.rows - 1) * self.row_stride + (self.columns - 1) * self.column_stride;
            assert!(last < len, "{self:?} does not fit into {len} elements");
        }
        self
    }
}

impl<'a> Matrix<'a> {
    /// Rows that are contiguous, `row_stride` elements from one to the next.
    pub fn new(elements: &'a [f32], [rows, columns]: [usize; 2], row_stride: usize) -> Matrix<'a> {
        let layout = Layout { rows, columns, row_stride, column_stride: 1 };
        Matrix { layout: layout.check(elements.len()), elements }
    }

    pub fn rows(&self) -> usize {
        self.layout.rows
    }

    pub fn columns(&self) -> usize {
        self.layout.columns
    }

    /// Whether the elements of a row follow each other; otherwise those of a column do.
    pub(crate) fn has_contiguous_rows(&self) -> bool {
        self.layout.column_stride == 1
    }

    /// A part of the matrix.
    pub(crate) fn block(self, rows: Range<usize>, columns: Range<usize>) -> Matrix<'a> {
        let Layout { row_stride, column_stride, .. } = self.layout;
        let start = rows.start * row_stride + columns.start * column_stride;
        let elements = &self.elements[start.min(self.elements.len())..];
        let layout = Layout { rows: rows.len(), columns: columns.len(), ..self.layout };
        Matrix { layout: layout.check(elements.len()), elements }
    }

    pub fn transposed(self) -> Matrix<'a> {
        let Layout { rows, columns, row_stride, column_stride } = self.layout;
        let layout = Layout {
            rows: columns,
            columns: rows,
            row_stride: column_stride,
            column_stride: row_stride,
        };
        Matrix { layout, ..self }
    }
}

impl<'a> MatrixMut<'a> {
    /// Panics where rows would overlap.
    pub fn new(
        elements: &'a mut [f32],
        [rows, columns]: [usize; 2],
        row_stride: usize,
    ) -> MatrixMut<'a> {
        assert!(rows <= 1 || row_stride >= columns, "rows overlap");
        let layout = Layout { rows, columns, row_stride, column_stride: 1 };
        MatrixMut { layout: layout.check(elements.len()), elements }
    }
}

impl MatrixMut<'_> {
    /// Rows and columns.
    pub(crate) fn sizes(&self) -> [usize; 2] {
        [self.layout.rows, self.layout.columns]
    }

    /// A part of the matrix, of so many rows and columns.
    pub(crate) fn block(&mut self, [row, column]: [usize; 2], sizes: [usize; 2]) -> MatrixMut<'_> {
        let stride = self.layout.row_stride;
        MatrixMut::new(&mut self.elements[row * stride + column..], sizes, stride)
    }

    pub(crate) fn rows_mut(&mut self) -> impl Iterator<Item = &mut [f32]> {
        let Layout { rows, columns, row_stride, .. } = self.layout;
        let rows = self.elements.chunks_mut(row_stride.max(1)).take(rows);
        rows.map(move |row| &mut row[..columns])
    }
}

/// `to = lhs rhs`, or with `accumulate` added to what is there.
pub fn multiply(to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, accumulate: bool) {
    let (rows, columns, depth) = (lhs.layout.rows, rhs.layout.columns, lhs.layout.columns);
    assert_eq!(rhs.layout.rows, depth, "the operands do not match");
    assert_eq!(to.sizes(), [rows, columns], "the result has another shape");
    #[cfg(target_arch = "x86_64")]
    if Level::of_processor() == Level::Avx512
        && let Some(order) = Order::of(lhs.layout, rhs.layout)
    {
        #[allow(unsafe_code, reason = "the call into code for instructions that not all have")]
        // SAFETY: the processor was asked for these instructions.
        return unsafe { blocks::multiply(order, to, lhs, rhs, accumulate) };
    }
    multiply_by_crate(to, lhs, rhs, accumulate);
}

/// `to = lhs rhs + bias`, where the bias has an element for each column.
pub fn multiply_with_bias(mut to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, bias: &[f32]) {
    assert_eq!(bias.len(), to.layout.columns, "the bias is of other width");
    let whole = MatrixMut { elements: &mut *to.elements, layout: to.layout };
    multiply(whole, lhs, rhs, false);
    to.rows_mut().for_each(|row| add(row, bias));
}

/// [`multiply`] by the crate gemm.
#[allow(unsafe_code, reason = "the product of the crate takes pointers and strides")]
fn multiply_by_crate(to: MatrixMut<'_>, lhs: Matrix<'_>, rhs: Matrix<'_>, accumulate: bool) {
    let (rows, columns, depth) = (lhs.layout.rows, rhs.layout.columns, lhs.layout.columns);
    let strides = |layout: Layout| (layout.row_stride as isize, layout.column_stride as isize);
    let (to_row, to_column) = strides(to.layout);
    let (lhs_row, lhs_column) = strides(lhs.layout);
    let (rhs_row, rhs_column) = strides(rhs.layout);
    // The product is fastest where columns of the result are contiguous. Here rows are: so the
    // transposed product is computed, with both operands transposed and in reverse order.
    // SAFETY: the layouts are inside of their slices, and the result's elements are distinct.
    unsafe {
        gemm_f32::gemm::f32::get_gemm_fn()(
            columns,
            rows,
            depth,
            to.elements.as_mut_ptr(),
            to_row,
            to_column,
            accumulate,
            rhs.elements.as_ptr(),
            rhs_row,
            rhs_column,
            lhs.elements.as_ptr(),
            lhs_row,
            lhs_column,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
