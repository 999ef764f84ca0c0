//! A table that is zeros but for a few rows, as the gradient of an embedding.
//!
//! N rows, H elements of a row.

use super::composite::Composite;
use super::{Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{KernelUse, TableOfRows as TableOfRowsKernel};
use crate::tensor::Tensor;

/// The numbers of rows in a larger table, s32[N], the rows [N, H], and the number of the first one of this table, an
/// s32 scalar.
#[derive(Debug)]
struct TableOfRows {
    /// The rows of this table.
    length: usize,
}

impl Tensor {
    /// A table of `length` rows, to which those rows of `self` [N, H] are added whose `numbers` it has: `first` is the
    /// number of its first row. Rows are added in their order, and others are left out.
    pub fn table_of_rows(&self, numbers: &Tensor, first: &Tensor, length: usize) -> Result<Tensor> {
        numbers.apply(TableOfRows { length }, &[self, first])
    }
}

impl Composite for TableOfRows {
    fn name(&self) -> &'static str {
        "table_of_rows"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [numbers, rows, first] = operands(inputs)?;
        if [numbers.dtype, first.dtype] != [DType::S32; 2] || self.length == 0 {
            return Err("takes numbers in s32, of rows of a table that has any".into());
        }
        match (&numbers.dims[..], &rows.dims[..], first.rank()) {
            (&[count], &[rows_count, width], 0) if count == rows_count => {
                Ok(rows.with_dims([self.length, width]))
            }
            _ => Err("takes numbers [N], rows [N, H], and the first number".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let [numbers, rows, first] = inputs else { unreachable!("has three operands") };
        let numbers = numbers.sub(first)?;
        let is_inside = numbers.ge_scalar(0.0)?.and(&numbers.lt_scalar(self.length as f64)?)?;
        let is_inside = is_inside.unsqueeze(1)?.broadcast_to(rows.dims())?;
        let zeros = |shape: Shape| rows.trace().full(0.0, shape);
        let added = is_inside.select(rows, &zeros(rows.shape().clone())?)?;
        let table = rows.shape().with_dims([self.length, rows.dims()[1]]);
        zeros(table)?.scatter_add(&numbers, &added)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let kernel = || KernelUse::of::<TableOfRowsKernel>(String::new());
        (inputs[1].dtype == DType::F32).then(kernel)
    }
}
