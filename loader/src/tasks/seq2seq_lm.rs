//! A text to read and one to write, as `run_summarization` and `run_translation` prepare them.
//!
//! The decoder reads the labels shifted right by one, behind its start token.

use std::borrow::Cow;

use serde::Serialize;

use super::{Example, Preprocessor, SetContext, text_arrays};
use crate::batch::{ArraySpec, Padding, ROWS, TARGET_POSITIONS, Target, TargetPadding};
use crate::error::{Error, Result};
use crate::labels::{IGNORED_LABEL, Labels};
use crate::source::{Row, Value};
use crate::tokenize::TextTokenizer;

/// The columns of a job that writes texts. Without a target rows can only be predicted on.
#[derive(Clone, Debug, Serialize)]
pub struct Seq2SeqLm {
    /// The sources.
    pub source: TextColumn,
    /// The targets; None for rows to predict.
    pub target: Option<TextColumn>,
    /// The text before each source.
    pub source_prefix: String,
    /// Tokens that a target is cut to, special tokens included.
    pub max_target_length: u32,
    /// Whether padding of targets has no part in the loss.
    pub ignore_pad_token_for_loss: bool,
    /// The token that targets are shifted behind.
    pub decoder_start: DecoderStart,
}

/// A column of texts, or a field of a column of structs such as `translation` of `datasets`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TextColumn {
    /// The name of the column.
    pub column: String,
    /// The field of the column's struct, such as a language; None where the column has texts.
    pub field: Option<String>,
}

/// The token that a decoder reads first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum DecoderStart {
    /// The token of this id.
    Token(u32),
    /// The last token of the target, which is that of its language (mBART).
    LastToken,
}

impl TextColumn {
    /// The name of the column, with that of the field behind a period.
    pub(super) fn name(&self) -> Cow<'_, str> {
        match &self.field {
            Some(field) => format!("{}.{field}", self.column).into(),
            None => self.column.as_str().into(),
        }
    }

    /// The text of a row; a missing one is empty.
    pub(super) fn text<'row>(&self, row: &Row<'row>) -> Result<&'row str> {
        let Some(field) = &self.field else { return row.text_or_empty(&self.column) };
        let not_text =
            |found| Error::NotText { at: row.location(), column: self.name().into_owned(), found };
        let Value::Struct(fields) = row.cell(&self.column) else {
            return Err(not_text(row.cell(&self.column).kind()));
        };
        // `en` for mBART's `en_XX`, as in `run_translation`.
        let language = field.split('_').next().unwrap_or(field);
        let named = |wanted: &str| fields.iter().find(|(name, _)| name == wanted);
        match named(field).or_else(|| named(language)) {
            Some((_, Value::Text(text))) => Ok(text),
            // Lines of JSON leave out what Parquet has as null.
            Some((_, Value::Null)) | None => Ok(""),
            Some((_, other)) => Err(not_text(other.kind())),
        }
    }
}

impl Seq2SeqLm {
    /// Whether labels of -100 behind a text stay: where padding counts in the loss, they do not.
    pub(super) fn keeps_end(&self) -> bool {
        !self.ignore_pad_token_for_loss
    }

    /// The source and the target of a row; `None` where one of them is empty.
    fn texts<'row>(&self, row: &Row<'row>) -> Result<Option<(&'row str, Option<&'row str>)>> {
        let source = self.source.text(row)?;
        let target = self.target.as_ref().map(|target| target.text(row)).transpose()?;
        let is_empty = source.is_empty() || target.is_some_and(str::is_empty);
        Ok((!is_empty).then_some((source, target)))
    }
}

impl Preprocessor for Seq2SeqLm {
    fn columns(&self) -> Vec<&str> {
        let target = self.target.as_ref().map(|target| target.column.as_str());
        [Some(self.source.column.as_str()), target].into_iter().flatten().collect()
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        let (length, specials) = (self.max_target_length, tokenizer.special_tokens());
        if length > specials {
            return Ok(());
        }
        let message = format!("{length} leaves no room beside {specials} special tokens");
        Err(Error::BadOption { field: "data.max_target_length", message })
    }

    /// A row whose source or target is empty makes no example, as in `run_summarization`.
    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let Some((source, target)) = self.texts(row)? else { return Ok(Vec::new()) };
        let tokenizer = context.tokenizer;
        let failed = |problem| row.tokenize_error(problem);
        let source = format!("{}{source}", self.source_prefix);
        let mut encoded = tokenizer.encode(&source, None).map_err(failed)?;
        let target = target.map(|text| tokenizer.encode_target(text, self.max_target_length));
        let target = target.transpose().map_err(failed)?;
        encoded.truncated |= target.as_ref().is_some_and(|target| target.truncated);
        let target = target.map(|target| target.input_ids);
        Ok(vec![Example { encoded, target, ..Example::default() }])
    }

    fn has_outlines(&self) -> bool {
        true
    }

    fn outline(&self, row: &Row<'_>, _context: &SetContext<'_>) -> Result<Vec<Example>> {
        let example = |(_, target): (&str, Option<&str>)| Example {
            target: target.map(|_| Vec::new()),
            ..Example::default()
        };
        Ok(self.texts(row)?.map(example).into_iter().collect())
    }

    fn arrays(&self, _labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = text_arrays(padding);
        if self.target.is_some() {
            let (sizes, token_id) = ([ROWS, TARGET_POSITIONS], padding.token_id as i32);
            arrays.push(ArraySpec::s32("decoder_input_ids", &sizes, token_id, |row| {
                row.decoder_input_ids()
            }));
            arrays.push(ArraySpec::s32("labels", &sizes, IGNORED_LABEL, |row| row.target_labels()));
        }
        arrays
    }

    /// Positions beyond the length that transformers pads to are no labels, whatever padding is. Where a label is none,
    /// the decoder reads padding.
    fn target(&self, ids: Vec<i32>, padding: TargetPadding) -> Target {
        let token = |&id: &i32| if id == IGNORED_LABEL { padding.token_id } else { id };
        let tokens: Vec<i32> = ids.iter().map(token).collect();
        let start = match self.decoder_start {
            DecoderStart::Token(id) => id as i32,
            DecoderStart::LastToken => last_token(&tokens, padding.token_id),
        };
        let mut decoder_input_ids: Vec<i32> = [start].into_iter().chain(tokens).collect();
        decoder_input_ids.truncate(padding.length);
        let mut labels = ids;
        if !self.ignore_pad_token_for_loss {
            labels.resize(padding.length, padding.token_id);
        }
        Target { decoder_input_ids, labels }
    }
}

/// The token at the place of mBART's last one: its number among those that are no padding, as if these stood in front.
fn last_token(tokens: &[i32], padding: i32) -> i32 {
    let count = tokens.iter().filter(|token| **token != padding).count();
    count.checked_sub(1).map_or(padding, |last| tokens[last])
}
