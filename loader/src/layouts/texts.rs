//! Rows that are a text each, and rows that are tokenized already.

use super::fields::LABELS;
use super::{RowLayout, Tokens};
use crate::chat::RowTexts;
use crate::error::Result;
use crate::token_row::TokenRow;

/// Rows of `max_length` tokens that a text is cut to at most, as in axolotl.
const ROWS_PER_TEXT_MAX: u32 = 64;

/// A text with the token that ends it, in rows of up to `max_length` tokens.
pub(super) fn completion(
    layout: &RowLayout,
    texts: &RowTexts<'_>,
    max_length: u32,
) -> Result<Vec<Tokens>> {
    let text = layout.text(texts, &layout.fields.text)?;
    let longest = max_length.saturating_mul(ROWS_PER_TEXT_MAX);
    let mut ids = texts.encode_up_to(text, longest)?;
    let eos_id = texts.token_id(texts.eos_token)?;
    if let Some(eos_id) = eos_id
        && !ids.is_empty()
        && ids.last() != Some(&eos_id)
        && ids.len() < longest as usize
    {
        ids.push(eos_id);
    }
    let row = |ids: &[u32]| {
        let mut row = Tokens::default();
        row.push(ids, true);
        row
    };
    Ok(ids.chunks(max_length.max(1) as usize).map(row).collect())
}

/// Tokens of the data, whose labels are the tokens themselves or [`crate::IGNORED_LABEL`].
pub(super) fn pretokenized(texts: &RowTexts<'_>) -> Result<Tokens> {
    let tokens = TokenRow::as_it_is(texts.row, texts.tokenizer)?;
    let own = || tokens.ids().iter().map(|id| *id as i32).collect();
    let labels = tokens.targets(LABELS)?.unwrap_or_else(own);
    Ok(Tokens { input_ids: tokens.ids().to_vec(), labels })
}
