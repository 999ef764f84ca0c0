//! A table that is zeros but for a few rows, as the gradient of an embedding.
//!
//! N rows, H elements of a row.

use super::composite::Composite;
use super::{Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{KernelUse, TableOfRows as TableOfRowsKernel};
use crate::tensor::Tensor;

const NAME: &str = "table_of_rows";

/// The operands of a table of rows, for kernels that read the rows instead.
pub(super) struct RowsOfTable {
    /// s32[N].
    pub(super) numbers: Tensor,
    /// [N, H].
    pub(super) rows: Tensor,
    /// An s32 scalar.
    pub(super) first: Tensor,
}

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

    /// The rows that this tensor consists of, flattened or not, if it is a table of rows.
    pub(super) fn rows_of_table(&self) -> Option<RowsOfTable> {
        let (trace, graph) = (self.trace(), self.trace().graph());
        let mut node = graph.node(self.node());
        while node.op.name() == "reshape" {
            node = graph.node(node.inputs[0]);
        }
        let tensor = |place: usize| trace.tensor(node.inputs[place]);
        (node.op.name() == NAME).then(|| RowsOfTable {
            numbers: tensor(0),
            rows: tensor(1),
            first: tensor(2),
        })
    }
}

impl Composite for TableOfRows {
    fn name(&self) -> &'static str {
        NAME
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
