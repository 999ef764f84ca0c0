//! The keys of dropout's random bits.

use traind_kernels::hash::{PLACE_STRIDE, next_key};
use traind_pjrt::{Kernel, KernelCall, KernelError};

use super::optimizer::first;

/// Two keys of seed and step, the offset of the first row, the rows and positions of tokens where there are any, and
/// the number of the first block where this core has some of them, to two keys for each block of each row.
pub(crate) struct DropoutKeys;

impl Kernel for DropoutKeys {
    const NAME: &'static str = "traind.dropout_keys";

    fn run(call: &mut KernelCall<'_>) -> Result<(), KernelError> {
        let scalar = |index| first(call.operand::<u32>(index)?);
        let (keys, row_offset) = ([scalar(0)?, scalar(1)?], scalar(2)?);
        let site = u32::try_from(call.attribute::<i64>("site")?).map_err(|_| "has no site")?;
        let numbers_blocks = call.attribute::<i64>("numbers_blocks")? != 0;
        let tokens = match call.attribute::<i64>("has_tokens")? {
            0 => None,
            _ => Some((call.operand::<u32>(3)?, call.operand::<u32>(4)?)),
        };
        let behind = if tokens.is_some() { 5 } else { 3 };
        let first_block =
            if call.operand_count() > behind { first(call.operand::<u32>(behind)?)? } else { 0 };
        let [_, rows, blocks] = call.result_dims(0)?[..] else { return Err("has no rows".into()) };
        if tokens.is_some_and(|(of, at)| [of.len(), at.len()] != [rows; 2]) {
            return Err("takes a row and a position of each token".into());
        }
        let result = call.result::<u32>(0)?;
        let of_keys = result.chunks_exact_mut((rows * blocks).max(1));
        for ((number, key), keys) in keys.into_iter().enumerate().zip(of_keys) {
            let of_site = next_key(key, site);
            for (row, keys) in keys.chunks_exact_mut(blocks.max(1)).enumerate() {
                let in_batch = tokens.map_or(row as u32, |(rows, _)| rows[row]);
                let of_row = next_key(of_site, in_batch.wrapping_add(row_offset));
                let place = tokens.filter(|_| number == 0).map_or(0, |(_, places)| places[row]);
                for (block, to) in (first_block..).zip(keys) {
                    let key = if numbers_blocks { next_key(of_row, block) } else { of_row };
                    *to = key.wrapping_add(place.wrapping_mul(PLACE_STRIDE));
                }
            }
        }
        Ok(())
    }
}
