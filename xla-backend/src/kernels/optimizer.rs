//! The update of an optimizer, and the norm that clips it.

use traind_kernels::adamw::{self, Scalars};
use traind_kernels::sum::square_sum;
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// x to Σ x².
pub(crate) struct SquareSum;

/// Parameter and both moments, in place, gradient and eight scalars.
pub(crate) struct AdamW;

impl Kernel for SquareSum {
    const NAME: &'static str = "traind.square_sum";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        call.result::<f32>(0)?[0] = square_sum(call.operand(0)?);
        Ok(())
    }
}

impl Kernel for AdamW {
    const NAME: &'static str = "traind.adamw";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (gradient, scalars) = (call.operand(3)?, scalars(call, 4)?);
        let [parameter, exp_avg, exp_avg_sq] =
            [call.updated(0, 0)?, call.updated(1, 1)?, call.updated(2, 2)?];
        adamw::update(parameter, exp_avg, exp_avg_sq, gradient, scalars);
        Ok(())
    }
}

/// The scalars among the operands, from `first` on in the order of [`Scalars`].
fn scalars(call: &KernelCall<'_>, first: usize) -> Result<Scalars, KernelError> {
    let scalar = |index: usize| -> Result<f32, KernelError> {
        let operand = call.operand::<f32>(first + index)?.first();
        Ok(*operand.ok_or("a scalar is empty")?)
    };
    let decays = call.attribute::<i64>("decays")? != 0;
    Ok(Scalars {
        factor: scalar(0)?,
        decay_factor: if decays { scalar(1)? } else { 1.0 },
        one_minus_beta1: scalar(2)?,
        beta2: scalar(3)?,
        one_minus_beta2: scalar(4)?,
        step_size: scalar(5)?,
        bias_correction2_sqrt: scalar(6)?,
        epsilon: scalar(7)?,
    })
}
