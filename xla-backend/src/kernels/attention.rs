//! Attention of all heads, forward and backward.
//!
//! B rows, S positions, T tokens (B S in padded rows), N heads of queries, K of keys and values, D head size.

use traind_kernels::attention::{self, Cotangent, Dims, Operands};
use traind_kernels::hash::Dropout;
use traind_pjrt::{Kernel, KernelCall, KernelError};

/// Queries [T, N D], keys and values [T, K D], mask [B, 1, 1 or S, S], in causal attention first keys [B, S], of packed
/// rows the token of each place [B S] and the place of each token [T] and, with dropout, random keys [2, B, N] to the
/// output [T, N D] and statistics [B, N, 2, S].
pub(crate) struct AttentionForward;

/// The same operands, then output, statistics and cotangent, to three gradients.
pub(crate) struct AttentionBackward;

impl Kernel for AttentionForward {
    const NAME: &'static str = "traind.attention";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (operands, _) = operands(call)?;
        attention::forward(&operands, call.result(0)?, call.result(1)?);
        Ok(())
    }
}

impl Kernel for AttentionBackward {
    const NAME: &'static str = "traind.attention_backward";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let (operands, first) = operands(call)?;
        let at = Cotangent {
            output: call.operand(first)?,
            statistics: call.operand(first + 1)?,
            cotangent: call.operand(first + 2)?,
        };
        attention::backward(&operands, &at, [call.result(0)?, call.result(1)?, call.result(2)?]);
        Ok(())
    }
}

/// The operands of both passes, and the number of the first operand behind them.
fn operands<'a>(call: &KernelCall<'a>) -> Result<(Operands<'a>, usize), KernelError> {
    let mask_dims = call.operand_dims(3)?;
    let [rows, 1, mask_queries, positions] = mask_dims[..] else {
        return Err(format!("the mask has dimensions {mask_dims:?}").into());
    };
    let heads = usize::try_from(call.attribute::<i64>("heads")?).unwrap_or(0).max(1);
    let [hidden, key_hidden] = [width(call, 0)?, width(call, 1)?];
    let head_size = (hidden / heads).max(1);
    let rate = call.attribute::<f64>("dropout")?;
    let [is_causal, is_packed] =
        [call.attribute::<i64>("causal")? != 0, call.attribute::<i64>("packed")? != 0];
    let mut next = 4;
    let mut skip = |count: usize| {
        next += count;
        next - count
    };
    let starts = if is_causal { Some(call.operand(skip(1))?) } else { None };
    let tokens = if is_packed { Some(call.operand(skip(2))?) } else { None };
    let dropout =
        if rate > 0.0 { Some((Dropout::new(rate), call.operand(skip(1))?)) } else { None };
    let operands = Operands {
        dims: Dims {
            rows,
            positions,
            heads,
            key_heads: key_hidden / head_size,
            head_size,
            mask_queries,
        },
        query: call.operand(0)?,
        key: call.operand(1)?,
        value: call.operand(2)?,
        mask: call.operand(3)?,
        starts,
        tokens,
        scale: call.attribute::<f64>("scale")? as f32,
        dropout,
    };
    Ok((operands, next))
}

/// Returns the width of an operand's rows.
fn width(call: &KernelCall<'_>, operand: usize) -> Result<usize, KernelError> {
    Ok(call.operand_dims(operand)?.last().copied().unwrap_or(0))
}
