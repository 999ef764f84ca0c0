//! Rotary positions.

use traind_kernels::rotary::{Angles, rotate};
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// x [T, N, D], in place, cosines and sines [P, R / 2] to the turned heads [T, N, D].
pub(crate) struct Rotary;

impl Kernel for Rotary {
    const NAME: &'static str = "traind.rotary";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let dims = call.operand_dims(0)?;
        let &[_, heads, head_size] = &dims[..] else {
            return Err(format!("the heads have dimensions {dims:?}").into());
        };
        let pairs = call.operand_dims(1)?.last().copied().unwrap_or(0);
        let angles = Angles { cos: call.operand(1)?, sin: call.operand(2)?, pairs };
        let inverse = call.attribute::<i64>("inverse")? != 0;
        rotate(call.updated(0, 0)?, &angles, [heads, head_size], inverse);
        Ok(())
    }
}
