//! The tokenizer of models that read no text.

use super::{Encoded, SpannedEncoding, TextTokenizer, WindowOptions};
use crate::error::TokenizeProblem;

/// Refuses every text.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoTokenizer;

fn refused<T>() -> Result<T, TokenizeProblem> {
    Err(TokenizeProblem::Failed { message: "the model reads no text".to_owned() })
}

impl TextTokenizer for NoTokenizer {
    fn encode(&self, _text: &str, _text_pair: Option<&str>) -> Result<Encoded, TokenizeProblem> {
        refused()
    }

    fn encode_text(
        &self,
        _text: &str,
        _truncate: bool,
    ) -> Result<SpannedEncoding, TokenizeProblem> {
        refused()
    }

    fn encode_as_it_is(&self, _text: &str) -> Result<SpannedEncoding, TokenizeProblem> {
        refused()
    }

    fn encode_up_to(&self, _text: &str, _max_length: u32) -> Result<Encoded, TokenizeProblem> {
        refused()
    }

    fn encode_words(&self, _words: &[&str]) -> Result<SpannedEncoding, TokenizeProblem> {
        refused()
    }

    fn encode_windows(
        &self,
        _question: &str,
        _context: &str,
        _options: WindowOptions,
    ) -> Result<Vec<SpannedEncoding>, TokenizeProblem> {
        refused()
    }

    fn special_tokens(&self) -> u32 {
        0
    }

    fn cls_token_id(&self) -> Option<u32> {
        None
    }

    fn mask_token_id(&self) -> Option<u32> {
        None
    }

    fn max_length(&self) -> Option<u32> {
        None
    }

    fn vocab_size(&self) -> u32 {
        0
    }

    fn pad_token_id(&self) -> Option<u32> {
        None
    }

    fn fingerprint(&self) -> &str {
        "none"
    }
}
