//! The product that gradients of weights are.

use traind_kernels::matrix::{Matrix, MatrixMut, multiply};
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// a `[K, M]` and b `[K, N]` to aᵀ b `[M, N]`: in this layout XLA's product transposes an operand.
pub(crate) struct TransposedProduct;

impl Kernel for TransposedProduct {
    const NAME: &'static str = "traind.transposed_product";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (lhs_dims, rhs_dims) = (matrix_dims(call, 0)?, matrix_dims(call, 1)?);
        let ([_, rows], [_, columns]) = (lhs_dims, rhs_dims);
        let lhs = Matrix::new(call.operand(0)?, lhs_dims, rows).transposed();
        let rhs = Matrix::new(call.operand(1)?, rhs_dims, columns);
        let to = MatrixMut::new(call.result(0)?, [rows, columns], columns);
        multiply(to, lhs, rhs, false);
        Ok(())
    }
}

fn matrix_dims(call: &KernelCall<'_>, operand: usize) -> Result<[usize; 2], KernelError> {
    let dims = call.operand_dims(operand)?;
    dims.try_into().map_err(|_| format!("operand {operand} is no matrix").into())
}
