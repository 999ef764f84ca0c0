//! Examples put end to end and cut into blocks of one length: `group_texts` of transformers'
//! language modelling scripts. Texts are taken a thousand at a time, as `datasets.map` hands them
//! to it, and what does not fill a block at the end of a thousand is dropped.

use super::TokenizedSet;
use crate::{Error, Result};

const TEXTS_TOGETHER: usize = 1_000;

/// The set with blocks for rows. Fails where no block is full.
pub(super) fn cut_into_blocks(set: TokenizedSet, block_size: u32) -> Result<TokenizedSet> {
    let size = block_size as usize;
    let (mut starts, mut source_rows) = (Vec::new(), Vec::new());
    for first in (0..set.len()).step_by(TEXTS_TOGETHER) {
        let behind = (first + TEXTS_TOGETHER).min(set.len());
        let (start, end) = (set.offsets[first] as usize, set.offsets[behind] as usize);
        let blocks = (end - start) / size;
        for block in (start..).step_by(size).take(blocks) {
            let row = set.offsets.partition_point(|&offset| offset as usize <= block) - 1;
            source_rows.push(set.source_row(row) as u32);
            starts.push(block);
        }
    }
    if starts.is_empty() {
        let message = format!("{} tokens do not fill a block of {size}", set.tokens());
        return Err(Error::BadOption { field: "data.block_size", message });
    }
    Ok(TokenizedSet {
        input_ids: gather(&set.input_ids, &starts, size),
        offsets: (0..=starts.len()).map(|block| (block * size) as u64).collect(),
        token_type_ids: set.token_type_ids.map(|ids| gather(&ids, &starts, size)),
        masking: set.masking.map(|parts| gather(&parts, &starts, size)),
        source_rows: Some(source_rows),
        ..set
    })
}

fn gather<T: Copy>(values: &[T], starts: &[usize], size: usize) -> Vec<T> {
    starts.iter().flat_map(|&start| &values[start..start + size]).copied().collect()
}
