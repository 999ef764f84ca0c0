//! Examples put end to end and cut into blocks of one length: `group_texts` of transformers'
//! language modelling scripts. Texts are taken a thousand at a time, as `datasets.map` hands them
//! to it, and what does not fill a block at the end of a thousand is dropped. The tokens already
//! lie end to end, so that a block is a span of them.

use super::rows::Rows;
use crate::error::{Error, Result};

const TEXTS_TOGETHER: usize = 1_000;

/// The blocks of rows that lie end to end. Fails where no block is full.
pub(super) fn cut_into_blocks(rows: &Rows, block_size: u32) -> Result<Rows> {
    let size = u64::from(block_size);
    let mut cut = Rows::default();
    for first in (0..rows.len()).step_by(TEXTS_TOGETHER) {
        let behind = (first + TEXTS_TOGETHER).min(rows.len());
        let (start, end) = (rows.span(first).start, rows.span(behind - 1).end);
        let mut row = first;
        for block in 0..(end - start) / size {
            let block_start = start + block * size;
            while rows.span(row).end <= block_start {
                row += 1;
            }
            cut.push(block_start, block_size, rows.source_row(row));
        }
    }
    match cut.len() {
        0 => {
            let message = format!("{} tokens do not fill a block of {size}", rows.tokens());
            Err(Error::BadOption { field: "data.block_size", message })
        }
        _ => Ok(cut),
    }
}
