//! The sum of all squares.

use super::composite::Composite;
use super::table_of_rows::RowsOfTable;
use super::{Backward, Problem, ResultStorage, check_float, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::kernels::attributes::integer;
use crate::kernels::{
    AddSquareSums as AddSquareSumsKernel, KernelUse, SquareSum as SquareSumKernel,
    SquareSumOfRows as OfRowsKernel,
};
use crate::tensor::Tensor;

/// The length of the rows in which a vector is added up.
const ROW_ELEMENTS: usize = 1 << 10;

#[derive(Clone, Copy, Debug)]
struct SquareSum;

/// A scalar and tensors to the scalar plus the sum of the squares of each, in their order.
#[derive(Clone, Copy, Debug)]
struct AddSquareSums;

/// The numbers of rows, the rows, and the number of the first row of a [table](Tensor::table_of_rows) to the sum of the
/// squares in the table, which is not made.
#[derive(Clone, Copy, Debug)]
struct SquareSumOfRows {
    /// The rows of the table.
    length: usize,
}

impl Tensor {
    /// Σ x² over all elements, in parts: in one float32 sum, small elements are lost to what millions
    /// before them came to, and no dot says in what order it adds. Half precision is summed in f32.
    pub fn sum_of_squares(&self) -> Result<Tensor> {
        match self.rows_of_table().filter(|_| self.trace().calls_kernels()) {
            Some(RowsOfTable { numbers, rows, first }) => {
                let length = self.shape().element_count() / rows.dims()[1].max(1);
                numbers.apply(SquareSumOfRows { length }, &[&rows, &first])
            }
            None => self.apply(SquareSum, &[]),
        }
    }

    /// This scalar plus the [sum of squares](Tensor::sum_of_squares) of each of `tensors`. Where a kernel computes it,
    /// programs have one call for all of them.
    pub fn add_sums_of_squares(&self, tensors: &[&Tensor]) -> Result<Tensor> {
        let is_f32 = |it: &Tensor| it.dtype() == DType::F32;
        let are_alike = is_f32(self) && tensors.iter().all(|it| is_f32(it));
        let are_whole = tensors.iter().all(|it| it.rows_of_table().is_none());
        match self.trace().calls_kernels() && are_alike && are_whole && tensors.len() > 1 {
            true => self.apply(AddSquareSums, tensors),
            false => tensors.iter().try_fold(self.clone(), |sum, it| {
                sum.add(&it.convert(self.dtype())?.sum_of_squares()?)
            }),
        }
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

    /// Writes the sum axis by axis.
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

impl Composite for SquareSumOfRows {
    fn name(&self) -> &'static str {
        "square_sum_of_rows"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [numbers, rows, first] = operands(inputs)?;
        let is_table = rows.rank() == 2 && numbers.dims[..] == rows.dims[..1] && first.rank() == 0;
        match is_table && [numbers.dtype, first.dtype] == [DType::S32; 2] {
            true => Ok(Shape::scalar(rows.dtype.accumulator())),
            false => Err("takes numbers s32[N], rows [N, H], and the first number".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let [numbers, rows, first] = inputs else { return Ok(inputs[0].clone()) };
        rows.table_of_rows(numbers, first, self.length)?.apply(SquareSum, &[])
    }

    fn kernel(&self, inputs: &[Shape]) -> Option<KernelUse> {
        let kernel = || KernelUse::of::<OfRowsKernel>(format!("length = {}", integer(self.length)));
        (inputs[1].dtype == DType::F32).then(kernel)
    }
}

impl Composite for AddSquareSums {
    fn name(&self) -> &'static str {
        "add_square_sums"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn reads_memory(&self) -> bool {
        true
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        match inputs {
            [sum, tensors @ ..]
                if *sum == Shape::scalar(DType::F32)
                    && tensors.iter().all(|it| it.dtype == DType::F32) =>
            {
                Ok(sum.clone())
            }
            _ => Err("takes a scalar and tensors of float32".into()),
        }
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let [sum, tensors @ ..] = inputs else { return Ok(inputs[0].clone()) };
        tensors.iter().try_fold(sum.clone(), |sum, it| sum.add(&it.apply(SquareSum, &[])?))
    }

    fn kernel(&self, _inputs: &[Shape]) -> Option<KernelUse> {
        Some(KernelUse::of::<AddSquareSumsKernel>(String::new()))
    }
}
