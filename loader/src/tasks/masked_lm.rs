//! Texts whose tokens will be masked, as `run_mlm` prepares them: a row a line, or put end to end
//! and cut into blocks. [`crate::Masking`] draws the masked tokens anew each epoch.

use serde::Serialize;

use super::causal_lm::check_block_size;
use super::{Example, Preprocessor, SetContext, token_target_arrays};
use crate::batch::{ArraySpec, Padding, ROWS, fixed};
use crate::error::{Error, Result};
use crate::labels::Labels;
use crate::source::Row;
use crate::tokenize::{SpannedEncoding, TextTokenizer};

/// A special token, which is never masked.
pub(crate) const SPECIAL_TOKEN: u8 = 0;
/// The first token of a word.
pub(crate) const STARTS_WORD: u8 = 1;
/// A token inside a word: masked with the word if whole words are masked.
pub(crate) const CONTINUES_WORD: u8 = 2;

/// The column of a masked language modelling job.
#[derive(Clone, Debug, Serialize)]
pub struct MaskedLm {
    /// The column of texts.
    pub text: String,
    /// Tokens of a block. None makes each text a row (`line_by_line`) and leaves out blank ones.
    pub block_size: Option<u32>,
}

impl Preprocessor for MaskedLm {
    fn columns(&self) -> Vec<&str> {
        vec![&self.text]
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        self.block_size.map_or(Ok(()), check_block_size)?;
        let message = "the tokenizer has no mask token".to_owned();
        let mask = tokenizer.mask_token_id();
        mask.map(drop).ok_or(Error::BadOption { field: "model.task", message })
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let text = row.text_or_empty(&self.text)?;
        let line_by_line = self.block_size.is_none();
        if line_by_line && is_blank(text) {
            return Ok(Vec::new());
        }
        let pieces = context.tokenizer.encode_text(text, line_by_line);
        let pieces = pieces.map_err(|problem| row.tokenize_error(problem))?;
        let masking = masking(&pieces, context.tokenizer);
        Ok(vec![Example { encoded: pieces.encoded, masking, ..Example::default() }])
    }

    fn has_outlines(&self) -> bool {
        self.block_size.is_none()
    }

    fn outline(&self, row: &Row<'_>, _context: &SetContext<'_>) -> Result<Vec<Example>> {
        match is_blank(row.text_or_empty(&self.text)?) {
            true => Ok(Vec::new()),
            false => Ok(vec![Example::default()]),
        }
    }

    fn arrays(&self, _labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = token_target_arrays(padding);
        arrays.push(ArraySpec::s32("sampling_seeds", &[ROWS], 0, |row| vec![row.sampling_seed]));
        let sums = [ROWS, fixed(3)];
        arrays.push(ArraySpec::f32("batch_sums", &sums, 0.0, |row| row.batch_sums.to_vec()));
        arrays
    }

    fn block_size(&self) -> Option<u32> {
        self.block_size
    }
}

/// Whether a text has no line to make a row of.
fn is_blank(text: &str) -> bool {
    text.trim().is_empty()
}

/// The part of each token in its word. A gap between two tokens ends a word, as in transformers' collator. Special
/// tokens are never masked, also those of the text itself such as `[UNK]`: the Trainer removes the column
/// `special_tokens_mask`, so that its collator asks `get_special_tokens_mask`.
fn masking(pieces: &SpannedEncoding, tokenizer: &dyn TextTokenizer) -> Vec<u8> {
    let tokens = pieces.spans.iter().zip(&pieces.encoded.input_ids);
    parts_of_words(tokens.map(|(span, id)| {
        let is_special = span.sequence.is_none() || tokenizer.is_special_token(*id);
        (!is_special).then_some([i64::from(span.start), i64::from(span.end)])
    }))
}

/// The part in its word of each token, given by its first character and the one behind its last; None
/// is a special token.
pub(super) fn parts_of_words(tokens: impl Iterator<Item = Option<[i64; 2]>>) -> Vec<u8> {
    let mut end_before = None;
    let part = |token: Option<[i64; 2]>| {
        let Some([start, end]) = token else {
            end_before = None;
            return SPECIAL_TOKEN;
        };
        let part = if end_before == Some(start) { CONTINUES_WORD } else { STARTS_WORD };
        end_before = Some(end);
        part
    };
    tokens.map(part).collect()
}
