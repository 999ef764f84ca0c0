//! The sum of all squares.

use super::composite::Composite;
use super::{Backward, Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::{KernelUse, SquareSum as SquareSumKernel};
use crate::tensor::Tensor;

/// The length of the rows in which a vector is added up.
const ROW_ELEMENTS: usize = 1 << 10;

#[derive(Clone, Copy, Debug)]
struct SquareSum;

impl Tensor {
    /// Σ x² over all elements, in parts: in one float32 sum, small elements are lost to what millions
    /// before them came to, and no dot says in what order it adds. Half precision is summed in f32.
    pub fn sum_of_squares(&self) -> Result<Tensor> {
        self.apply(SquareSum, &[])
    }

    /// A long vector as rows, the last one filled up with zeros.
    fn in_rows(&self) -> Result<Tensor> {
        let elements = self.shape().element_count();
        if self.rank() != 1 || elements <= ROW_ELEMENTS {
            return Ok(self.clone());
        }
        let rows = elements.div_ceil(ROW_ELEMENTS);
        let filled = self.pad(0, 0, rows * ROW_ELEMENTS - elements, 0.0)?;
        filled.reshape(&[rows, ROW_ELEMENTS])
    }
}

impl Composite for SquareSum {
    fn name(&self) -> &'static str {
        "square_sum"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x] = operands(inputs)?;
        check_float(x)?;
        Ok(Shape::scalar(x.dtype.accumulator()))
    }

    /// Summed axis by axis.
    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let x = inputs[0].widen()?.in_rows()?;
        let mut sums = x.mul(&x)?;
        for axis in (0..sums.rank()).rev() {
            sums = sums.sum(&[axis])?;
        }
        Ok(sums)
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        (inputs[0].dtype == DType::F32).then(|| KernelUse::of::<SquareSumKernel>(String::new()))
    }

    /// 2 x.
    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let x = &at.inputs[0];
        let gradient = x.widen()?.mul(at.cotangent)?.mul_scalar(2.0)?;
        Ok(vec![Some(gradient.convert(x.dtype())?)])
    }
}
