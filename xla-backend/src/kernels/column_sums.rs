//! Sums of columns.

use traind_kernels::sum::column_sums;
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// A matrix to the sum of each column.
pub(crate) struct ColumnSums;

impl Kernel for ColumnSums {
    const NAME: &'static str = "traind.column_sums";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        column_sums(call.operand(0)?, call.result(0)?);
        Ok(())
    }
}
