//! Layer norm and root-mean-square norm, of a sum with dropout or of rows as they are.
//!
//! R rows, H elements of a row.

use traind_kernels::hash::Dropout;
use traind_kernels::norm::{self, Cotangent, DropoutOfRows, Gradients, Norm, Operands, Results};
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// x [..., H], weight [H], then where there is one each: bias [H], residual [..., H], keys
/// [2, B, blocks of a row]. To the output [..., H], statistics [2, R] and, with a residual, the sum.
pub(crate) struct NormForward;

/// The normalized rows [..., H], weight [H], statistics [2, R], cotangent [..., H] and, with dropout,
/// keys. To gradients: of the rows [..., H], the weight [H], where there is one the bias [H], and with
/// dropout the rows before it.
pub(crate) struct NormBackward;

impl Kernel for NormForward {
    const NAME: &'static str = "traind.norm";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let is_centered = flag(call, "centered")?;
        let mut next = 2;
        let mut optional = |is_there: bool| {
            next += usize::from(is_there);
            is_there.then_some(next - 1)
        };
        let bias = optional(is_centered);
        let residual = optional(flag(call, "residual")?);
        let keys = optional(call.attribute::<f64>("dropout")? > 0.0);
        let norm = norm_of(call, 1, keys)?;
        let operands = Operands {
            x: call.operand(0)?,
            residual: residual.map(|index| call.operand(index)).transpose()?,
            bias: bias.map(|index| call.operand(index)).transpose()?,
        };
        let results = Results {
            output: call.result(0)?,
            statistics: call.result(1)?,
            sum: residual.map(|_| call.result(2)).transpose()?,
        };
        norm::forward(&norm, &operands, results);
        Ok(())
    }
}

impl Kernel for NormBackward {
    const NAME: &'static str = "traind.norm_backward";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let drops = call.attribute::<f64>("dropout")? > 0.0;
        let norm = norm_of(call, 1, drops.then_some(4))?;
        let at = Cotangent {
            normalized: call.operand(0)?,
            statistics: call.operand(2)?,
            cotangent: call.operand(3)?,
        };
        let behind_bias = if norm.is_centered { 3 } else { 2 };
        let gradients = Gradients {
            normalized: call.result(0)?,
            weight: call.result(1)?,
            bias: norm.is_centered.then(|| call.result(2)).transpose()?,
            dropped: drops.then(|| call.result(behind_bias)).transpose()?,
        };
        norm::backward(&norm, &at, gradients);
        Ok(())
    }
}

fn norm_of<'a>(
    call: &KernelCall<'a>,
    weight: usize,
    keys: Option<usize>,
) -> Result<Norm<'a>, KernelError> {
    let rate = call.attribute::<f64>("dropout")?;
    let dropout = |index| -> Result<DropoutOfRows<'a>, KernelError> {
        Ok(DropoutOfRows { dropout: Dropout::new(rate), keys: call.operand(index)? })
    };
    Ok(Norm {
        weight: call.operand(weight)?,
        epsilon: call.attribute::<f64>("epsilon")? as f32,
        is_centered: flag(call, "centered")?,
        dropout: keys.map(dropout).transpose()?,
    })
}

fn flag(call: &KernelCall<'_>, name: &str) -> Result<bool, KernelError> {
    Ok(call.attribute::<i64>(name)? != 0)
}
