//! GELU of all elements, forward and backward.

use traind_kernels::gelu;
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// x to y.
pub(crate) struct GeluForward;

/// x and dy to dx.
pub(crate) struct GeluBackward;

impl Kernel for GeluForward {
    const NAME: &'static str = "traind.gelu";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        gelu::forward(call.operand(0)?, call.result(0)?);
        Ok(())
    }
}

impl Kernel for GeluBackward {
    const NAME: &'static str = "traind.gelu_backward";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        gelu::backward(call.operand(0)?, call.operand(1)?, call.result(0)?);
        Ok(())
    }
}
