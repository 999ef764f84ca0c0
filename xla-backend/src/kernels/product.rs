//! Products of two matrices.

use traind_kernels::matrix::{Matrix, MatrixMut, multiply, multiply_with_bias, without_end};
use traind_pjrt::{Kernel, KernelCall, KernelError};

use super::KernelUse;
use super::attributes::integer;
use crate::graph::Shape;

/// The product of two matrices, each over its axis that an attribute names. With a third matrix as the first operand,
/// the product is added to it in place.
pub(crate) struct Product;

/// The same product of the first two operands, plus a bias with an element for each column. XLA would compile a loop of
/// its own for each addition.
pub(crate) struct BiasedProduct;

/// A call of `K` for matrices that are summed over these axes, of `depth` elements, to `result`.
pub(crate) fn product<K: Kernel>(axes: [usize; 2], depth: usize, result: &Shape) -> KernelUse {
    let [lhs, rhs] = axes.map(integer);
    let flops = 2.0 * (depth * result.element_count()) as f64;
    KernelUse::of::<K>(format!("lhs_axis = {lhs}, rhs_axis = {rhs}")).with_flops(flops)
}

impl Kernel for Product {
    const NAME: &'static str = "traind.product";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let accumulates = call.operand_count() == 3;
        let [lhs, rhs] = factors(call, usize::from(accumulates))?;
        let to = if accumulates { call.updated(0, 0)? } else { call.result(0)? };
        let dims = [lhs.rows(), rhs.columns()];
        let to = MatrixMut::new(to, dims, dims[1]);
        without_end(to, lhs, rhs, accumulates, |to, lhs, rhs| multiply(to, lhs, rhs, accumulates));
        Ok(())
    }
}

impl Kernel for BiasedProduct {
    const NAME: &'static str = "traind.biased_product";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let ([lhs, rhs], bias) = (factors(call, 0)?, call.operand(2)?);
        let dims = [lhs.rows(), rhs.columns()];
        let to = MatrixMut::new(call.result(0)?, dims, dims[1]);
        without_end(to, lhs, rhs, false, |to, lhs, rhs| multiply_with_bias(to, lhs, rhs, bias));
        Ok(())
    }
}

/// The factors, of which the operand `first` is the left one, in the layouts of the product.
fn factors<'a>(call: &KernelCall<'a>, first: usize) -> Result<[Matrix<'a>; 2], KernelError> {
    let (lhs, rhs) = (matrix(call, first)?, matrix(call, first + 1)?);
    let lhs = if call.attribute::<i64>("lhs_axis")? == 0 { lhs.transposed() } else { lhs };
    let rhs = if call.attribute::<i64>("rhs_axis")? == 0 { rhs } else { rhs.transposed() };
    Ok([lhs, rhs])
}

fn matrix<'a>(call: &KernelCall<'a>, operand: usize) -> Result<Matrix<'a>, KernelError> {
    let dims = call.operand_dims(operand)?;
    let dims: [usize; 2] =
        dims.try_into().map_err(|_| format!("operand {operand} is not a matrix"))?;
    Ok(Matrix::new(call.operand(operand)?, dims, dims[1]))
}
