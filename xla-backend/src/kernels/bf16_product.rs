//! Products of matrices that are rounded to bfloat16.

use traind_kernels::bf16::{is_supported, multiply};
use traind_kernels::matrix::{Matrix, MatrixMut};
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// a and b, and a bias [N] if there is one, to op(a) op(b) + bias [M, N], where op transposes the
/// operands that the attributes name.
pub(crate) struct Bf16Product;

impl Kernel for Bf16Product {
    const NAME: &'static str = "traind.bf16_product";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        if !is_supported() {
            return Err("the processor multiplies no bfloat16 numbers".into());
        }
        let (lhs, rhs) = (matrix(call, 0, "lhs_transposed")?, matrix(call, 1, "rhs_transposed")?);
        let bias = if call.operand_count() > 2 { call.operand(2)? } else { &[] };
        let dims = call.result_dims(0)?;
        let [rows, columns] =
            dims.try_into().map_err(|_| KernelError::from("the result is no matrix"))?;
        multiply(MatrixMut::new(call.result(0)?, [rows, columns], columns), lhs, rhs, bias);
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
        return Err(format!("operand {operand} is no matrix").into());
    };
    let matrix = Matrix::new(call.operand(operand)?, [rows, columns], columns);
    Ok(if call.attribute::<i64>(attribute)? != 0 { matrix.transposed() } else { matrix })
}
