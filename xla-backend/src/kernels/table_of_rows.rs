//! Tables that are zeros but for a few rows.

use traind_kernels::table;
use traind_pjrt::{Kernel, KernelCall, KernelError};

use super::optimizer::first;

/// The numbers of rows, the rows, and the number of the table's first row, to the table. XLA would add one row after
/// the other, each in several calls.
pub(crate) struct TableOfRows;

impl Kernel for TableOfRows {
    const NAME: &'static str = "traind.table_of_rows";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (numbers, rows) = (call.operand(0)?, call.operand(1)?);
        let first = first(call.operand(2)?)?;
        let [_, width] = call.result_dims(0)?[..] else { return Err("is not a table".into()) };
        table::fill(call.result(0)?, width, rows, numbers, first);
        Ok(())
    }
}
