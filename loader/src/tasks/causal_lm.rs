//! Texts put end to end and cut into blocks, whose tokens are their own targets, as `run_clm`
//! prepares them. The model shifts the targets by one.

use serde::Serialize;

use super::{Example, Preprocessor, SetContext, text_arrays};
use crate::batch::{ArraySpec, POSITIONS, Padding, ROWS};
use crate::error::{Error, Result};
use crate::labels::{IGNORED_LABEL, Labels};
use crate::source::Row;
use crate::tokenize::TextTokenizer;

/// The column of a causal language modelling job.
#[derive(Clone, Debug, Serialize)]
pub struct CausalLm {
    /// The column of texts.
    pub text: String,
    /// Tokens of a block.
    pub block_size: u32,
}

impl Preprocessor for CausalLm {
    fn columns(&self) -> Vec<&str> {
        vec![&self.text]
    }

    fn check(&self, _tokenizer: &dyn TextTokenizer) -> Result<()> {
        check_block_size(self.block_size)
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let text = row.text_or_empty(&self.text)?;
        let pieces = context.tokenizer.encode_text(text, false);
        let encoded = pieces.map_err(|problem| row.tokenize_error(problem))?.encoded;
        Ok(vec![Example { encoded, ..Example::default() }])
    }

    fn arrays(&self, _labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = text_arrays(padding);
        let sizes = [ROWS, POSITIONS];
        arrays.push(ArraySpec::s32("labels", &sizes, IGNORED_LABEL, |row| row.input_ids.clone()));
        arrays
    }

    fn block_size(&self) -> Option<u32> {
        Some(self.block_size)
    }

    fn predicts_inputs(&self) -> bool {
        true
    }
}

/// A block must hold a token and one to predict from it.
pub(super) fn check_block_size(block_size: u32) -> Result<()> {
    let message = format!("must be at least 2, found {block_size}");
    match block_size {
        0 | 1 => Err(Error::BadOption { field: "data.block_size", message }),
        _ => Ok(()),
    }
}
