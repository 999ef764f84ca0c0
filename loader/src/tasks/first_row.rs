//! Finds in one row, and without a tokenizer, what keeps rows from becoming examples: columns of other types, a token
//! that ends texts which nothing names, a chat template that is missing or fails.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{SetContext, TaskSpec};
use crate::error::{Result, TokenizeProblem};
use crate::source::Row;
use crate::tokenize::{Encoded, SpannedEncoding, TextTokenizer, TokenSpan, WindowOptions};

impl TaskSpec {
    /// Returns true where [`Self::check_row`] knows enough: rows of conversations need the chat template and the
    /// special tokens, which `has_template` says were those of the model.
    pub(crate) fn checks_rows(&self, has_template: bool) -> bool {
        match self {
            Self::Sft(_) | Self::Dpo(_) | Self::Reward(_) | Self::Cpo(_) | Self::Kto(_) => {
                has_template
            }
            Self::SequenceClassification(_)
            | Self::TokenClassification(_)
            | Self::CausalLm(_)
            | Self::Seq2SeqLm(_)
            | Self::Embedding(_)
            | Self::Reranker(_) => true,
            // Their examples depend on more than the tokens of texts.
            Self::MaskedLm(_)
            | Self::QuestionAnswering(_)
            | Self::ImageClassification(_)
            | Self::Tokenized(_) => false,
        }
    }

    /// Fails where a row cannot become an example, whatever the tokenizer is. A row that would be left out is none
    /// that fails.
    pub(crate) fn check_row(&self, row: &Row<'_>) -> Result<()> {
        let preprocessor = self.preprocessor();
        preprocessor.check(&WholeTexts)?;
        if self.lack(row).is_some_and(|lack| lack.is_left_out) {
            return Ok(());
        }
        let context = SetContext { tokenizer: &WholeTexts, labels: None };
        preprocessor.encode(row, &context).map(drop)
    }
}

/// Makes one token of each text, which stands for equal texts alone.
struct WholeTexts;

fn whole(text: &str) -> SpannedEncoding {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    // Labels are signed.
    let id = (hasher.finish() >> 33) as u32;
    let end = text.chars().count() as u32;
    let span = TokenSpan { sequence: Some(0), word: Some(0), start: 0, end };
    SpannedEncoding { encoded: Encoded::of_one_text(vec![id]), spans: vec![span] }
}

impl TextTokenizer for WholeTexts {
    fn encode(&self, text: &str, text_pair: Option<&str>) -> Result<Encoded, TokenizeProblem> {
        Ok(whole(&format!("{text}{}", text_pair.unwrap_or_default())).encoded)
    }

    fn encode_text(&self, text: &str, _truncate: bool) -> Result<SpannedEncoding, TokenizeProblem> {
        Ok(whole(text))
    }

    fn encode_as_it_is(&self, text: &str) -> Result<SpannedEncoding, TokenizeProblem> {
        Ok(whole(text))
    }

    fn encode_up_to(&self, text: &str, _max_length: u32) -> Result<Encoded, TokenizeProblem> {
        Ok(whole(text).encoded)
    }

    fn encode_words(&self, words: &[&str]) -> Result<SpannedEncoding, TokenizeProblem> {
        Ok(whole(&words.join(" ")))
    }

    fn encode_windows(
        &self,
        text: &str,
        text_pair: &str,
        _windows: WindowOptions,
    ) -> Result<Vec<SpannedEncoding>, TokenizeProblem> {
        Ok(vec![whole(&format!("{text}{text_pair}"))])
    }

    fn max_length(&self) -> Option<u32> {
        None
    }

    fn special_tokens(&self) -> u32 {
        0
    }

    fn vocab_size(&self) -> u32 {
        u32::MAX
    }

    fn pad_token_id(&self) -> Option<u32> {
        None
    }

    fn cls_token_id(&self) -> Option<u32> {
        None
    }

    fn mask_token_id(&self) -> Option<u32> {
        None
    }

    fn fingerprint(&self) -> &str {
        "whole texts"
    }
}
