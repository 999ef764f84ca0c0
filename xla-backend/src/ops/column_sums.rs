//! The sums of a matrix over its rows, as the gradient of a bias is.

use super::composite::Composite;
use super::{Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{ColumnSums as ColumnSumsKernel, KernelUse};
use crate::tensor::Tensor;

/// Sums a matrix [M, N] to [N].
#[derive(Debug)]
struct ColumnSums;

impl Tensor {
    /// [`Tensor::sum`] over the rows of this matrix, for gradients.
    pub(super) fn column_sums(&self) -> Result<Tensor> {
        match self.trace().calls_kernels() {
            true => self.apply(ColumnSums, &[]),
            false => self.sum(&[0]),
        }
    }
}

impl Composite for ColumnSums {
    fn name(&self) -> &'static str {
        "column_sums"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        check_float(x)?;
        match x.dims[..] {
            [_, columns] => Ok(x.with_dims([columns])),
            _ => Err("takes a matrix".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        inputs[0].sum(&[0])
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let kernel = || KernelUse::of::<ColumnSumsKernel>(String::new());
        (inputs[0].dtype == DType::F32).then(kernel)
    }
}
