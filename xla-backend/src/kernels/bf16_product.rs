//! Products of matrices that are rounded to bfloat16.

use traind_kernels::bf16::{Addend, multiply};
use traind_kernels::matrix::{Matrix, MatrixMut, without_end};
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// a and b, and a bias [N] if there is one, to op(a) op(b) + bias [M, N], where op transposes the
/// operands that the attributes name. If it accumulates, the first operand is a matrix [M, N], to which
/// the product of the other two is added in place.
pub(crate) struct Bf16Product;

impl Kernel for Bf16Product {
    const NAME: &'static str = "traind.bf16_product";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let accumulates = call.attribute::<i64>("accumulates")? != 0;
        let first = usize::from(accumulates);
        let lhs = matrix(call, first, "lhs_transposed")?;
        let rhs = matrix(call, first + 1, "rhs_transposed")?;
        let (to, addend) = match (accumulates, call.operand_count()) {
            (true, _) => (call.updated(0, 0)?, Addend::Sum),
            (false, 2) => (call.result(0)?, Addend::Bias(&[])),
            (false, _) => (call.result(0)?, Addend::Bias(call.operand(2)?)),
        };
        let dims = [lhs.rows(), rhs.columns()];
        let to = MatrixMut::new(to, dims, dims[1]);
        without_end(to, lhs, rhs, accumulates, |to, lhs, rhs| multiply(to, lhs, rhs, addend));
        Ok(())
    }
}

/// An operand, transposed if the attribute says so.
fn matrix<'a>(
    call: &KernelCall<'a>,
    operand: usize,
    attribute: &str,
) -> Result<Matrix<'a>, KernelError> {
    let dims = call.operand_dims(operand)?;
    let Ok([rows, columns]) = <[usize; 2]>::try_from(dims) else {
        return Err(format!("operand {operand} is not a matrix").into());
    };
    let matrix = Matrix::new(call.operand(operand)?, [rows, columns], columns);
    Ok(if call.attribute::<i64>(attribute)? != 0 { matrix.transposed() } else { matrix })
}
