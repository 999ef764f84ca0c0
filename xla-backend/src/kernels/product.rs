//! Products of two matrices.

use traind_kernels::matrix::{Matrix, MatrixMut, multiply};
use traind_pjrt::{Kernel, KernelCall, KernelError};

use super::KernelUse;
use super::attributes::integer;
use crate::graph::Shape;

/// The product of two matrices, each over its axis that an attribute names. With a third matrix as the first operand,
/// the product is added to it in place.
pub(crate) struct Product;

/// A call for matrices that are summed over these axes, of `depth` elements, to `result`.
pub(crate) fn product(axes: [usize; 2], depth: usize, result: &Shape) -> KernelUse {
    let [lhs, rhs] = axes.map(integer);
    let flops = 2.0 * (depth * result.element_count()) as f64;
    KernelUse::of::<Product>(format!("lhs_axis = {lhs}, rhs_axis = {rhs}")).with_flops(flops)
}

impl Kernel for Product {
    const NAME: &'static str = "traind.product";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let accumulates = call.operand_count() == 3;
        let first = usize::from(accumulates);
        let (lhs, rhs) = (matrix(call, first)?, matrix(call, first + 1)?);
        let lhs = if call.attribute::<i64>("lhs_axis")? == 0 { lhs.transposed() } else { lhs };
        let rhs = if call.attribute::<i64>("rhs_axis")? == 0 { rhs } else { rhs.transposed() };
        let to = if accumulates { call.updated(0, 0)? } else { call.result(0)? };
        let dims = [lhs.rows(), rhs.columns()];
        multiply(MatrixMut::new(to, dims, dims[1]), lhs, rhs, accumulates);
        Ok(())
    }
}

fn matrix<'a>(call: &KernelCall<'a>, operand: usize) -> Result<Matrix<'a>, KernelError> {
    let dims = call.operand_dims(operand)?;
    let dims: [usize; 2] =
        dims.try_into().map_err(|_| format!("operand {operand} is no matrix"))?;
    Ok(Matrix::new(call.operand(operand)?, dims, dims[1]))
}
