//! An activation times a factor, forward and backward.

use traind_kernels::gated::{self, Activation};
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// Gate and factor to their product.
pub(crate) struct GatedForward;

/// Gate and factor, in place, and the product's cotangent to the gradients of both.
pub(crate) struct GatedBackward;

impl Kernel for GatedForward {
    const NAME: &'static str = "traind.gated";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (gate, up) = (call.operand(0)?, call.operand(1)?);
        gated::forward(activation(call)?, gate, up, call.result(0)?);
        Ok(())
    }
}

impl Kernel for GatedBackward {
    const NAME: &'static str = "traind.gated_backward";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (activation, cotangent) = (activation(call)?, call.operand(2)?);
        gated::backward(activation, call.updated(0, 0)?, call.updated(1, 1)?, cotangent);
        Ok(())
    }
}

/// The activation by its number.
fn activation(call: &KernelCall<'_>) -> Result<Activation, KernelError> {
    match call.attribute::<i64>("activation")? {
        0 => Ok(Activation::Silu),
        1 => Ok(Activation::Gelu),
        2 => Ok(Activation::GeluTanh),
        other => Err(format!("there is no activation {other}").into()),
    }
}
