//! Cross entropy of logits with labels, forward and backward.
//!
//! N rows, C classes.

use traind_kernels::cross_entropy;
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// Logits [N, C] and labels s32 [N] to losses [N] and statistics [2, N].
pub(crate) struct CrossEntropyForward;

/// Logits, labels, statistics and the losses' cotangent [N] to the logits' gradient [N, C], in the
/// memory of the logits where nothing else reads them.
pub(crate) struct CrossEntropyBackward;

impl Kernel for CrossEntropyForward {
    const NAME: &'static str = "traind.cross_entropy";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (logits, labels) = (call.operand(0)?, call.operand(1)?);
        cross_entropy::forward(logits, labels, call.result(0)?, call.result(1)?);
        Ok(())
    }
}

impl Kernel for CrossEntropyBackward {
    const NAME: &'static str = "traind.cross_entropy_backward";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let logits = call.updated(0, 0)?;
        let (labels, statistics) = (call.operand(1)?, call.operand(2)?);
        cross_entropy::backward(logits, labels, statistics, call.operand(3)?);
        Ok(())
    }
}
