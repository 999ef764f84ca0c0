//! Attention of all heads, forward and backward.
//!
//! B rows, S positions, N heads, H hidden.

use traind_kernels::attention::{self, Cotangent, Dims, Operands};
use traind_kernels::hash::Dropout;
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// Queries, keys and values [B S, H], mask [B, 1, 1 or S, S] and, with dropout, keys [2, B, N]
/// to the output [B S, H] and statistics [B, N, 2, S].
pub(crate) struct AttentionForward;

/// The same operands, then output, statistics and cotangent, to three gradients [B S, H].
pub(crate) struct AttentionBackward;

impl Kernel for AttentionForward {
    const NAME: &'static str = "traind.attention";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let operands = operands(call)?;
        attention::forward(&operands, call.result(0)?, call.result(1)?);
        Ok(())
    }
}

impl Kernel for AttentionBackward {
    const NAME: &'static str = "traind.attention_backward";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let operands = operands(call)?;
        let first = if operands.dropout.is_some() { 5 } else { 4 };
        let at = Cotangent {
            output: call.operand(first)?,
            statistics: call.operand(first + 1)?,
            cotangent: call.operand(first + 2)?,
        };
        attention::backward(&operands, &at, [call.result(0)?, call.result(1)?, call.result(2)?]);
        Ok(())
    }
}

fn operands<'a>(call: &KernelCall<'a>) -> Result<Operands<'a>, KernelError> {
    let mask_dims = call.operand_dims(3)?;
    let [rows, 1, mask_queries, positions] = mask_dims[..] else {
        return Err(format!("the mask has dimensions {mask_dims:?}").into());
    };
    let heads = usize::try_from(call.attribute::<i64>("heads")?).unwrap_or(0).max(1);
    let hidden = call.operand_dims(0)?.last().copied().unwrap_or(0);
    let rate = call.attribute::<f64>("dropout")?;
    let dropout = match rate > 0.0 {
        true => Some((Dropout::new(rate), call.operand(4)?)),
        false => None,
    };
    Ok(Operands {
        dims: Dims { rows, positions, heads, head_size: hidden / heads, mask_queries },
        query: call.operand(0)?,
        key: call.operand(1)?,
        value: call.operand(2)?,
        mask: call.operand(3)?,
        scale: call.attribute::<f64>("scale")? as f32,
        dropout,
    })
}
