//! Text to token ids, behind a trait of our own: the tokenizer library can be replaced without a
//! change outside this folder.

mod classes;
mod config;
mod decode;
mod growth;
mod hugging_face;
mod languages;
mod new_tokens;
mod no_tokenizer;
mod setting_files;
mod settings;
#[cfg(test)]
mod tests;
mod vocabulary_files;

pub use config::model_max_length;
pub use hugging_face::{HuggingFaceTokenizer, TokenizerOptions};
pub use new_tokens::{ExtendedTokenizer, NewTokens};
pub use no_tokenizer::NoTokenizer;
use serde::Deserialize;
pub(crate) use setting_files::{read_settings, token_content};

use crate::error::TokenizeProblem;

/// Encodes one row at a time; called from many threads at once. The caller knows the row, and
/// adds it to a problem.
pub trait TextTokenizer: Send + Sync {
    /// Token ids of a text, or of a pair, with special tokens, truncated longest first to
    /// [`Self::max_length`].
    fn encode(&self, text: &str, text_pair: Option<&str>) -> Result<Encoded, TokenizeProblem>;

    /// A text with the span of each token in it, special tokens added. Cut to
    /// [`Self::max_length`] if `truncate`.
    fn encode_text(&self, text: &str, truncate: bool) -> Result<SpannedEncoding, TokenizeProblem>;

    /// A text that has its special tokens, with the span of each token in it.
    fn encode_as_it_is(&self, text: &str) -> Result<SpannedEncoding, TokenizeProblem>;

    /// Token ids of a text, special tokens added, cut to `max_length`.
    fn encode_up_to(&self, text: &str, max_length: u32) -> Result<Encoded, TokenizeProblem>;

    /// Token ids of a text to write, which may have special tokens of its own: those of its language.
    fn encode_target(&self, text: &str, max_length: u32) -> Result<Encoded, TokenizeProblem> {
        self.encode_up_to(text, max_length)
    }

    /// Words that are given split, with the word of each token (`is_split_into_words`), cut to
    /// [`Self::max_length`].
    fn encode_words(&self, words: &[&str]) -> Result<SpannedEncoding, TokenizeProblem>;

    /// A pair whose second text is cut into as many overlapping windows as it needs, each with the
    /// first text and the special tokens (`truncation="only_second"` with a stride).
    fn encode_windows(
        &self,
        text: &str,
        text_pair: &str,
        windows: WindowOptions,
    ) -> Result<Vec<SpannedEncoding>, TokenizeProblem>;

    /// The longest encoding in tokens, special tokens included; None is no limit.
    fn max_length(&self) -> Option<u32>;

    /// The number of special tokens that are added to a text.
    fn special_tokens(&self) -> u32;

    /// How many ids there are, added tokens included: all ids are below it.
    fn vocab_size(&self) -> u32;

    /// The id of the padding token; None where the tokenizer has none (GPT-2).
    fn pad_token_id(&self) -> Option<u32>;

    /// The id of the classification token; None where the tokenizer has none.
    fn cls_token_id(&self) -> Option<u32>;

    /// The id of the mask token; None where the tokenizer has none.
    fn mask_token_id(&self) -> Option<u32>;

    /// Returns whether `id` is one of transformers' `all_special_ids`, also where a text has it.
    fn is_special_token(&self, _id: u32) -> bool {
        false
    }

    /// Returns whether rows that are too long lose their beginning (`truncation_side: left`).
    fn cuts_beginning(&self) -> bool {
        false
    }

    /// The side that rows are padded on.
    fn padding_side(&self) -> PaddingSide {
        PaddingSide::Right
    }

    /// A fingerprint that changes whenever any encoding may change.
    fn fingerprint(&self) -> &str;
}

/// The side of a row that padding stands on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PaddingSide {
    /// Padding stands before the first token.
    Left,
    /// Padding stands behind the last token.
    #[default]
    Right,
}

/// The inputs that a model is given besides the ids: what its tokenizer has (`model_input_names`),
/// and what the task adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelInputs {
    /// The segment of each token.
    pub token_type_ids: bool,
    /// A 1 for each token that is no padding.
    pub attention_mask: bool,
    /// Positions that begin anew with each text of a row.
    pub position_ids: bool,
}

impl ModelInputs {
    /// Returns false for an optional input of a model that it is not given.
    pub fn gives(&self, name: &str) -> bool {
        match name {
            "token_type_ids" => self.token_type_ids,
            "position_ids" => self.position_ids,
            _ => true,
        }
    }
}

/// One row's tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Encoded {
    /// The tokens.
    pub input_ids: Vec<u32>,
    /// A number for each of `input_ids`.
    pub token_type_ids: Vec<u8>,
    /// True if `max_length` cut something off.
    pub truncated: bool,
}

impl Encoded {
    /// The tokens of one text, all of them.
    pub(crate) fn of_one_text(input_ids: Vec<u32>) -> Self {
        Self { token_type_ids: vec![0; input_ids.len()], input_ids, truncated: false }
    }
}

/// One row's tokens and their origins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpannedEncoding {
    /// The tokens of a text.
    pub encoded: Encoded,
    /// A number for each of `input_ids`.
    pub spans: Vec<TokenSpan>,
}

/// The origin of a token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokenSpan {
    /// 0 or 1, the text of the pair; None is a special token that the tokenizer added.
    pub sequence: Option<u8>,
    /// The word it is part of.
    pub word: Option<u32>,
    /// Its first character in the text (or word), and the one behind its last.
    pub start: u32,
    /// The character behind its last in the text (or word).
    pub end: u32,
}

/// The windows that long texts are cut into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WindowOptions {
    /// Tokens of a window, the first text and special tokens counted; None makes one window.
    pub max_length: Option<u32>,
    /// Tokens that a window shares with the one before it.
    pub doc_stride: u32,
}
