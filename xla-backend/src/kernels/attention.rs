//! Attention of all heads, forward and backward.
//!
//! B rows, S positions, N heads of queries, K of keys and values, D head size.

use traind_kernels::attention::{self, Cotangent, Dims, Operands};
use traind_kernels::hash::Dropout;
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// Queries [B S, N D], keys and values [B S, K D], mask [B, 1, 1 or S, S], in causal attention first
/// keys [B, S] and, with dropout, random keys [2, B, N] to the output [B S, N D] and statistics
/// [B, N, 2, S].
pub(crate) struct AttentionForward;

/// The same operands, then output, statistics and cotangent, to three gradients.
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
        let first =
            4 + usize::from(operands.starts.is_some()) + usize::from(operands.dropout.is_some());
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
    let [hidden, key_hidden] = [width(call, 0)?, width(call, 1)?];
    let head_size = (hidden / heads).max(1);
    let starts = match call.attribute::<i64>("causal")? {
        0 => None,
        _ => Some(call.operand(4)?),
    };
    let rate = call.attribute::<f64>("dropout")?;
    let dropout = match rate > 0.0 {
        true => {
            let keys = call.operand(if starts.is_some() { 5 } else { 4 })?;
            Some((Dropout::new(rate), keys))
        }
        false => None,
    };
    let key_heads = key_hidden / head_size;
    Ok(Operands {
        dims: Dims { rows, positions, heads, key_heads, head_size, mask_queries },
        query: call.operand(0)?,
        key: call.operand(1)?,
        value: call.operand(2)?,
        mask: call.operand(3)?,
        starts,
        scale: call.attribute::<f64>("scale")? as f32,
        dropout,
    })
}

/// Returns the width of an operand's rows.
fn width(call: &KernelCall<'_>, operand: usize) -> Result<usize, KernelError> {
    Ok(call.operand_dims(operand)?.last().copied().unwrap_or(0))
}
