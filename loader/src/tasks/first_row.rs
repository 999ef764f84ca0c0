//! Finds in the first rows, and without a tokenizer, what keeps rows from becoming examples: columns of other types,
//! labels that are none, images that are missing, rows of tokens that are too long, a token that ends texts which
//! nothing names, a chat template that is missing or fails.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::{Lack, SetContext, TaskSpec};
use crate::error::{Result, TokenizeProblem};
use crate::labels::LabelReader;
use crate::source::Row;
use crate::tokenize::{Encoded, SpannedEncoding, TextTokenizer, TokenSpan, WindowOptions};

/// The first rows that are checked: enough to find a fault of a column, and few enough to render as conversations.
const ROWS: usize = 16;
/// The same of images, which are decoded.
const IMAGES: usize = 2;

/// The facts about a model's tokenizer that are known before a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KnownTokenizer {
    /// Whether the chat template and the special tokens of the task are those of the model.
    pub has_template: bool,
    /// A length that no row has more tokens than.
    pub max_length: Option<u32>,
}

impl TaskSpec {
    /// Returns the number of first rows that [`Self::check_rows`] can check. Rows of conversations need the chat
    /// template and the special tokens of the model.
    pub(crate) fn rows_to_check(&self, known: KnownTokenizer) -> usize {
        match self {
            Self::Sft(_) | Self::Dpo(_) | Self::Reward(_) | Self::Cpo(_) | Self::Kto(_)
                if !known.has_template =>
            {
                0
            }
            Self::ImageClassification(_) => IMAGES,
            _ => ROWS,
        }
    }

    /// Fails where the settings cannot work, whatever the tokenizer is.
    pub(crate) fn check_settings(&self, known: KnownTokenizer) -> Result<()> {
        self.preprocessor().check(&WholeTexts::of(known))
    }

    /// Fails where a row cannot become an example, whatever the tokenizer is. A row that would be left out is none
    /// that fails. `class_names` are those of a column in each file.
    pub(crate) fn check_rows<'row>(
        &self,
        mut rows: impl Iterator<Item = Row<'row>>,
        known: KnownTokenizer,
        class_names: impl Fn(&str) -> Vec<Option<Vec<String>>>,
    ) -> Result<()> {
        let (preprocessor, tokenizer) = (self.preprocessor(), &WholeTexts::of(known));
        let labels = preprocessor.labels();
        let labels = labels.map(|spec| LabelReader::new(spec, class_names(&spec.column)));
        let context = SetContext { tokenizer, labels };
        rows.try_for_each(|row| {
            if self.lack_of_row(&row).is_some() {
                return Ok(());
            }
            context.labels.as_ref().map_or(Ok(None), |labels| labels.read_weight(&row))?;
            preprocessor.encode(&row, &context).map(drop)
        })
    }

    /// The text that a row lacks, if it is left out for that.
    pub(crate) fn lack_of_row<'a>(&'a self, row: &Row<'_>) -> Option<Lack<'a>> {
        self.lack(row).filter(|lack| lack.is_left_out)
    }
}

/// Makes one token of each text, which stands for equal texts alone.
struct WholeTexts {
    max_length: Option<u32>,
}

impl WholeTexts {
    fn of(known: KnownTokenizer) -> Self {
        Self { max_length: known.max_length }
    }
}

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
