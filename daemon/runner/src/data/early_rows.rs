//! The lengths of rows that are known before a run, for its plan.

use traind_loader::TokenLengths;

/// The rows of all splits, as far as their lengths are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EarlyRows {
    /// The longest rows that are tokenized already, and are not cut.
    pub tokens: Option<TokenLengths>,
    /// Whether all splits have such rows alone. Others are cut to the lengths of texts.
    pub are_tokens: bool,
}

impl Default for EarlyRows {
    fn default() -> EarlyRows {
        EarlyRows { tokens: None, are_tokens: true }
    }
}

impl EarlyRows {
    /// Adds the rows of a split, which are not known where it is read in the run alone.
    pub(super) fn add(&mut self, split: Option<TokenLengths>) {
        let Some(split) = split else {
            self.are_tokens = false;
            return;
        };
        let before = self.tokens.unwrap_or(TokenLengths { are_known: true, ..split });
        self.tokens = Some(TokenLengths {
            row: before.row.max(split.row),
            target: before.target.max(split.target),
            are_known: before.are_known && split.are_known,
        });
    }
}
