//! A label for each word, as `run_ner` prepares it: rows hold lists of words and of labels. The
//! first token of a word carries its label; the others carry none unless `label_all_tokens`.

use serde::Serialize;

use super::{
    CONTINUES_WORD, Example, Preprocessor, SPECIAL_TOKEN, STARTS_WORD, SetContext, text_arrays,
    token_target_arrays,
};
use crate::batch::{ArraySpec, Padding};
use crate::error::{Error, Result};
use crate::labels::{LabelKind, LabelSpec, Labels, RowLabel, TokenLabel};
use crate::source::Row;
use crate::tokenize::{TextTokenizer, TokenSpan};

/// The columns of a token classification job. Without labels rows can only be predicted on.
#[derive(Clone, Debug, Serialize)]
pub struct TokenClassification {
    /// A list of words.
    pub words: String,
    /// A list of labels, one for each word.
    pub labels: Option<LabelSpec>,
    /// Labels all tokens of a word; of a word labelled `B-X`, the tokens after the first are `I-X`.
    pub label_all_tokens: bool,
}

impl Preprocessor for TokenClassification {
    fn columns(&self) -> Vec<&str> {
        let labels = self.labels.as_ref().map(|labels| labels.column.as_str());
        [Some(self.words.as_str()), labels].into_iter().flatten().collect()
    }

    fn check(&self, _tokenizer: &dyn TextTokenizer) -> Result<()> {
        match self.labels.as_ref().map(|labels| &labels.kind) {
            Some(LabelKind::Regression { .. } | LabelKind::MultiLabel { .. }) => {
                Err(Error::BadOption {
                    field: "data.label",
                    message: "words have one class each".to_owned(),
                })
            }
            _ => Ok(()),
        }
    }

    fn labels(&self) -> Option<&LabelSpec> {
        self.labels.as_ref()
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let words = row.texts(&self.words)?;
        let labels = context.labels.as_ref().map(|labels| labels.read_words(row)).transpose()?;
        if let (Some(spec), Some(labels)) = (&self.labels, &labels)
            && labels.len() != words.len()
        {
            let (labels, words) = (labels.len(), words.len());
            let column = spec.column.clone();
            return Err(Error::LabelCount { at: row.location(), column, labels, words });
        }
        let pieces = context.tokenizer.encode_words(&words);
        let pieces = pieces.map_err(|problem| row.tokenize_error(problem))?;
        if pieces.encoded.input_ids.is_empty() {
            return Err(Error::EmptyText { at: row.location(), column: self.words.clone() });
        }
        let label = labels.map(|labels| RowLabel::Tokens(self.align(&labels, &pieces.spans)));
        let masking = parts_of_words(&pieces.spans);
        Ok(vec![Example { encoded: pieces.encoded, label, masking, ..Example::default() }])
    }

    fn arrays(&self, labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        match labels {
            Labels::None => text_arrays(padding),
            _ => token_target_arrays(padding),
        }
    }
}

/// The part of each token in its word.
fn parts_of_words(spans: &[TokenSpan]) -> Vec<u8> {
    let mut previous = None;
    let part = |span: &TokenSpan| {
        let continues = previous == span.word;
        previous = span.word;
        match (span.word, continues) {
            (None, _) => SPECIAL_TOKEN,
            (_, false) => STARTS_WORD,
            (_, true) => CONTINUES_WORD,
        }
    };
    spans.iter().map(part).collect()
}

impl TokenClassification {
    fn align(&self, labels: &[Option<u32>], spans: &[TokenSpan]) -> Vec<Option<TokenLabel>> {
        let mut previous = None;
        let label = |span: &TokenSpan| {
            let continues = previous == span.word;
            previous = span.word;
            let number = (*labels.get(span.word? as usize)?)?;
            (!continues || self.label_all_tokens).then_some(TokenLabel { number, continues })
        };
        spans.iter().map(label).collect()
    }
}
