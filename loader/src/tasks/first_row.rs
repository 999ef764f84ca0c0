//! Finds before a run, and without a tokenizer, what keeps rows from becoming examples: columns of other types,
//! labels that are none, images that are missing, rows of tokens that are too long, a token that ends texts which
//! nothing names, a chat template that is missing or fails.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Lack, TaskSpec};
use crate::error::{Result, TokenizeProblem};
use crate::source::Row;
use crate::token_row::TokenLimits;
use crate::tokenize::{Encoded, SpannedEncoding, TextTokenizer, TokenSpan, WindowOptions};

/// The first rows that are checked: enough to find a fault of a column, and few enough to render as conversations.
const ROWS: u64 = 16;
/// The first rows of images that are checked, few because they are decoded.
const IMAGES: u64 = 2;
/// The rows of small files that are checked.
const ROWS_OF_SMALL: u64 = 1 << 16;
/// The rows of small files of conversations that are checked, few because templates take time.
const CONVERSATIONS_OF_SMALL: u64 = 256;

/// The facts about a model's tokenizer that are known before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownTokenizer {
    /// Whether the chat template and the special tokens of the task are those of the model.
    pub has_template: bool,
    /// A length that no row has more tokens than.
    pub max_length: Option<u32>,
    /// The most tokens of rows that are tokenized already.
    pub token_limits: TokenLimits,
}

impl TaskSpec {
    /// Returns the number of rows that can be checked quickly, without their tokens. Rows of conversations need the
    /// chat template and the special tokens of the model.
    pub(crate) fn rows_to_check(&self, known: KnownTokenizer, are_small: bool) -> u64 {
        match self {
            _ if self.leaves_out_long_rows() => match (known.has_template, are_small) {
                (false, _) => 0,
                (true, true) => CONVERSATIONS_OF_SMALL,
                (true, false) => ROWS,
            },
            Self::ImageClassification(_) => IMAGES,
            _ if are_small => ROWS_OF_SMALL,
            _ => ROWS,
        }
    }

    /// Returns true if a row may have too many tokens to make an example. Others are cut.
    pub(crate) fn leaves_out_long_rows(&self) -> bool {
        matches!(self, Self::Sft(_) | Self::Dpo(_) | Self::Reward(_) | Self::Cpo(_) | Self::Kto(_))
    }

    /// Fails where the settings cannot work, whatever the tokenizer is.
    pub(crate) fn check_settings(&self, known: KnownTokenizer) -> Result<()> {
        self.preprocessor().check(&WholeTexts::of(known))
    }

    /// The text that a row lacks, if it is left out for that.
    pub(crate) fn lack_of_row<'a>(&'a self, row: &Row<'_>) -> Option<Lack<'a>> {
        self.lack(row).filter(|lack| lack.is_left_out)
    }
}

impl KnownTokenizer {
    /// A tokenizer for rows of which nothing but the faults matter.
    pub(crate) fn tokenizer(self) -> impl TextTokenizer {
        WholeTexts::of(self)
    }
}

/// Makes one token of each text, or word, which stands for equal ones alone.
struct WholeTexts {
    max_length: Option<u32>,
}

impl WholeTexts {
    fn of(known: KnownTokenizer) -> Self {
        Self { max_length: known.max_length }
    }
}

fn whole(text: &str) -> SpannedEncoding {
    let encoded = Encoded::of_one_text(vec![id_of(text)]);
    SpannedEncoding { encoded, spans: vec![span_of(text)] }
}

fn id_of(text: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    // Labels are signed.
    (hasher.finish() >> 33) as u32
}

fn span_of(text: &str) -> TokenSpan {
    TokenSpan { sequence: Some(0), word: Some(0), start: 0, end: text.chars().count() as u32 }
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
        // Without words there are special tokens.
        if words.is_empty() {
            return Ok(whole(""));
        }
        let ids = words.iter().map(|text| id_of(text)).collect();
        let span = |(text, word): (&&str, u32)| TokenSpan { word: Some(word), ..span_of(text) };
        let spans = words.iter().zip(0..).map(span).collect();
        Ok(SpannedEncoding { encoded: Encoded::of_one_text(ids), spans })
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
        self.max_length
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

    /// Any, since a model that lacks one is known by its tokenizer alone.
    fn mask_token_id(&self) -> Option<u32> {
        Some(0)
    }

    fn fingerprint(&self) -> &str {
        "whole texts"
    }
}
