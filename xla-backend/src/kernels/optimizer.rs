//! The update of an optimizer, and the norm that clips it.

use traind_kernels::adamw::{self, Scalars};
use traind_kernels::sum::square_sum;
use traind_kernels::table::FewRows;
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// x to Σ x².
pub(crate) struct SquareSum;

/// A scalar and arrays to the scalar plus the sum of the squares of each.
pub(crate) struct AddSquareSums;

/// The numbers of rows, the rows, and the number of the first row to the sum of the squares in a table of them.
pub(crate) struct SquareSumOfRows;

/// Parameter and both moments, in place, gradient and eight scalars.
pub(crate) struct AdamW;

impl Kernel for SquareSum {
    const NAME: &'static str = "traind.square_sum";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        call.result::<f32>(0)?[0] = square_sum(call.operand(0)?);
        Ok(())
    }
}

impl Kernel for AddSquareSums {
    const NAME: &'static str = "traind.add_square_sums";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let mut sum = first(call.operand::<f32>(0)?)?;
        for index in 1..call.operand_count() {
            sum += square_sum(call.operand(index)?);
        }
        call.result::<f32>(0)?[0] = sum;
        Ok(())
    }
}

impl Kernel for SquareSumOfRows {
    const NAME: &'static str = "traind.square_sum_of_rows";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let [_, width] = call.operand_dims(1)?[..] else { return Err("takes no rows".into()) };
        let length = usize::try_from(call.attribute::<i64>("length")?);
        let length = length.map_err(|_| "has a table of no length")?;
        let (numbers, rows, first) = (call.operand(0)?, call.operand(1)?, first(call.operand(2)?)?);
        call.result::<f32>(0)?[0] = FewRows::of(length, width, rows, numbers, first).square_sum();
        Ok(())
    }
}

impl Kernel for AdamW {
    const NAME: &'static str = "traind.adamw";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let gradient = call.operand(3)?;
        let of_decay = scalars(|index| call.operand(4 + index))?;
        let scalars = match call.attribute::<i64>("decays")? {
            0 => Scalars { decay_factor: 1.0, ..of_decay },
            _ => of_decay,
        };
        let [parameter, exp_avg, exp_avg_sq] =
            [call.updated(0, 0)?, call.updated(1, 1)?, call.updated(2, 2)?];
        adamw::update(parameter, exp_avg, exp_avg_sq, gradient, scalars);
        Ok(())
    }
}

/// The number of operands that [`scalars`] takes.
pub(super) const SCALARS: usize = 8;

/// The scalars in the operands that `operand` gives, in the order of [`Scalars`].
pub(super) fn scalars<'a>(
    operand: impl Fn(usize) -> Result<&'a [f32], KernelError>,
) -> Result<Scalars, KernelError> {
    let scalar = |index| first(operand(index)?);
    Ok(Scalars {
        factor: scalar(0)?,
        decay_factor: scalar(1)?,
        one_minus_beta1: scalar(2)?,
        beta2: scalar(3)?,
        one_minus_beta2: scalar(4)?,
        step_size: scalar(5)?,
        bias_correction2_sqrt: scalar(6)?,
        epsilon: scalar(7)?,
    })
}

/// The element of a scalar.
pub(super) fn first<T: Copy>(scalar: &[T]) -> Result<T, KernelError> {
    Ok(*scalar.first().ok_or("a scalar is empty")?)
}
