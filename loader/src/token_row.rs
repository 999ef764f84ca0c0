//! The tokens of a row, with the columns beside them.

use serde::Serialize;
use traind_wording::counted;

use crate::error::{Error, Result};
use crate::labels::IGNORED_LABEL;
use crate::source::{Row, Value};
use crate::tokenize::{Encoded, PaddingSide, TextTokenizer};

pub(crate) const INPUT_IDS: &str = "input_ids";
pub(crate) const ATTENTION_MASK: &str = "attention_mask";
pub(crate) const TOKEN_TYPE_IDS: &str = "token_type_ids";
pub(crate) const LABELS: &str = "labels";

/// The token of a target in a place that counts in no loss, where labels have -100.
pub const NO_TARGET: u32 = IGNORED_LABEL as u32;

/// A place beyond all rows.
const POSITION_MAX: i64 = 1 << 30;

/// The most tokens of a row that is tokenized already, and of its target; none where there is no limit.
/// Such rows are as long as their files make them, so the defaults of the lengths that texts are cut to are
/// no limits of theirs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TokenLimits {
    /// The limit of a row.
    pub row: Option<TokenLimit>,
    /// The limit of a row's target.
    pub target: Option<TokenLimit>,
}

/// A number of tokens, with the setting or the fact that limits them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct TokenLimit {
    /// The most tokens.
    pub tokens: u32,
    /// The name of the limit, for errors.
    pub name: &'static str,
}

/// The tokens of a row, without the padding behind them unless the tokenizer pads before tokens. Padding
/// before them stays: models with absolute positions count it.
pub(crate) struct TokenRow<'a, 'row> {
    row: &'a Row<'row>,
    encoded: Encoded,
    /// A 1 for each token that no token attends to, else a 0; empty where tokens attend to all.
    unattended: Vec<u8>,
    /// The number of tokens with the padding.
    padded_length: usize,
    vocab_size: u32,
}

impl<'a, 'row> TokenRow<'a, 'row> {
    /// Reads the tokens, with those that `attention_mask` leaves out up to the last one that counts.
    pub(crate) fn read(row: &'a Row<'row>, tokenizer: &dyn TextTokenizer) -> Result<Self> {
        // Batches are padded before such a row, so that its tokens keep their places only with the padding.
        Self::masked(row, tokenizer, tokenizer.padding_side() == PaddingSide::Left)
    }

    /// Reads the tokens with the padding, which has part in some losses.
    pub(crate) fn with_padding(row: &'a Row<'row>, tokenizer: &dyn TextTokenizer) -> Result<Self> {
        Self::masked(row, tokenizer, true)
    }

    fn masked(
        row: &'a Row<'row>,
        tokenizer: &dyn TextTokenizer,
        keeps_padding: bool,
    ) -> Result<Self> {
        let mut tokens = Self::as_it_is(row, tokenizer)?;
        tokens.encoded.token_type_ids = tokens.segments()?;
        let mask = tokens.numbers(ATTENTION_MASK)?;
        let mask = mask.unwrap_or_else(|| vec![1; tokens.padded_length]);
        let end = mask.iter().rposition(|&number| number != 0).map_or(0, |last| last + 1);
        if end == 0 {
            return Err(bad(row, INPUT_IDS, "has no tokens"));
        }
        let length = if keeps_padding { tokens.padded_length } else { end };
        if mask[..length].contains(&0) {
            tokens.unattended = mask[..length].iter().map(|flag| u8::from(*flag == 0)).collect();
        }
        tokens.encoded.input_ids.truncate(length);
        tokens.encoded.token_type_ids.truncate(length);
        Ok(tokens)
    }

    /// Reads the tokens with any padding, and without segments.
    pub(crate) fn as_it_is(row: &'a Row<'row>, tokenizer: &dyn TextTokenizer) -> Result<Self> {
        let vocab_size = tokenizer.vocab_size();
        let input_ids = ids(row, INPUT_IDS, vocab_size)?;
        let padded_length = input_ids.len();
        let encoded = Encoded::of_one_text(input_ids);
        Ok(Self { row, encoded, unattended: Vec::new(), padded_length, vocab_size })
    }

    /// Fails where there are more tokens than `limit`: like the Trainer, nothing is cut.
    pub(crate) fn at_most(self, limit: Option<TokenLimit>) -> Result<Self> {
        check_length(self.row, INPUT_IDS, "rows", self.ids().len(), limit)?;
        Ok(self)
    }

    pub(crate) fn row(&self) -> &'a Row<'row> {
        self.row
    }

    pub(crate) fn ids(&self) -> &[u32] {
        &self.encoded.input_ids
    }

    /// Returns the tokens, and a 1 for each that no token attends to, unless tokens attend to all.
    pub(crate) fn into_parts(self) -> (Encoded, Vec<u8>) {
        (self.encoded, self.unattended)
    }

    /// The numbers of a column, one for each token, padding included; None if the file has no such
    /// column, or the row no value.
    pub(crate) fn numbers(&self, column: &str) -> Result<Option<Vec<i64>>> {
        let numbers = numbers(self.row, column)?;
        numbers.map(|numbers| self.of_tokens(column, numbers)).transpose()
    }

    fn of_tokens<T>(&self, column: &str, values: Vec<T>) -> Result<Vec<T>> {
        let (count, tokens) = (values.len(), self.padded_length);
        match count == tokens {
            true => Ok(values),
            false => Err(bad(
                self.row,
                column,
                &format!("has {} for {}", counted(count, "value"), counted(tokens, "token")),
            )),
        }
    }

    /// The values of a column, one for each token, without those of the padding, which must be
    /// `ignored`: padding that counts in a loss cannot be left out.
    pub(crate) fn without_padding<T>(
        &self,
        column: &str,
        values: Vec<T>,
        ignored: impl Fn(&T) -> bool,
    ) -> Result<Vec<T>> {
        let mut values = self.of_tokens(column, values)?;
        let padding = values.split_off(self.ids().len());
        match padding.iter().all(ignored) {
            true => Ok(values),
            false => Err(bad(self.row, column, "has labels of padding; they must be -100")),
        }
    }

    /// A target for each token, or [`IGNORED_LABEL`].
    pub(crate) fn targets(&self, column: &str) -> Result<Option<Vec<i32>>> {
        let Some(labels) = self.numbers(column)? else { return Ok(None) };
        let labels = labels.into_iter().map(|label| self.target_id(column, label));
        let labels = labels.collect::<Result<Vec<i32>>>()?;
        self.without_padding(column, labels, |label| *label == IGNORED_LABEL).map(Some)
    }

    fn target_id(&self, column: &str, label: i64) -> Result<i32> {
        match label {
            label if label == i64::from(IGNORED_LABEL) => Ok(IGNORED_LABEL),
            label => Ok(id(self.row, column, label, self.vocab_size)? as i32),
        }
    }

    /// The first character of each token in its text and the one behind its last, without those of the
    /// padding.
    pub(crate) fn offsets(&self, column: &str) -> Result<Vec<[i64; 2]>> {
        let Some(Value::List(items)) = self.row.find(column) else {
            return Err(bad(self.row, column, "has no list of offsets"));
        };
        let pair = |item: &Value| match item {
            Value::List(pair) => match pair.as_slice() {
                [Value::Int(start), Value::Int(end)] => Ok([*start, *end]),
                _ => Err(bad(self.row, column, "has an item that is not a pair of numbers")),
            },
            other => {
                let problem = format!("has {} in its list of pairs of numbers", other.kind());
                Err(bad(self.row, column, &problem))
            }
        };
        let mut offsets =
            self.of_tokens(column, items.iter().map(pair).collect::<Result<Vec<_>>>()?)?;
        offsets.truncate(self.ids().len());
        Ok(offsets)
    }

    /// The place of a token that a column has the number of. As in transformers, places below 0 are 0, and those beyond
    /// the row may lie beyond the batch too, where they do not count.
    pub(crate) fn position(&self, column: &str) -> Result<i32> {
        match self.row.cell(column) {
            Value::Int(place) => Ok((*place).clamp(0, POSITION_MAX) as i32),
            other => Err(bad(self.row, column, &format!("is {} and no number", other.kind()))),
        }
    }

    /// The tokens of a text to write, with [`NO_TARGET`] in the places of -100. Those behind the text are no part of
    /// it, unless `keeps_end`. A row without a text has one place that counts in no loss.
    pub(crate) fn target(
        &self,
        column: &str,
        limit: Option<TokenLimit>,
        keeps_end: bool,
    ) -> Result<Vec<u32>> {
        let labels = numbers(self.row, column)?;
        let mut labels = labels.ok_or_else(|| bad(self.row, column, "has no tokens"))?;
        let ignored = i64::from(IGNORED_LABEL);
        let end = labels.iter().rposition(|label| *label != ignored).map_or(0, |last| last + 1);
        labels.truncate(if keeps_end { labels.len() } else { end });
        if labels.is_empty() {
            labels.push(ignored);
        }
        check_length(self.row, column, "targets", labels.len(), limit)?;
        let target = |label| Ok(self.target_id(column, label)? as u32);
        labels.into_iter().map(target).collect()
    }

    fn segments(&self) -> Result<Vec<u8>> {
        let Some(segments) = self.numbers(TOKEN_TYPE_IDS)? else {
            return Ok(vec![0; self.padded_length]);
        };
        let segments: Result<Vec<u8>, _> = segments.into_iter().map(u8::try_from).collect();
        segments.map_err(|_| bad(self.row, TOKEN_TYPE_IDS, "has a number that is not a segment"))
    }
}

/// The token ids of a column, all of which are in the vocabulary.
pub(crate) fn ids(row: &Row<'_>, column: &str, vocab_size: u32) -> Result<Vec<u32>> {
    let found = numbers(row, column)?.ok_or_else(|| bad(row, column, "has no value"))?;
    found.into_iter().map(|number| id(row, column, number, vocab_size)).collect()
}

fn id(row: &Row<'_>, column: &str, number: i64, vocab_size: u32) -> Result<u32> {
    match u32::try_from(number) {
        Ok(id) if id < vocab_size => Ok(id),
        _ => {
            let problem = format!("has the id {number}, and the tokenizer has {vocab_size} tokens");
            Err(bad(row, column, &problem))
        }
    }
}

/// The numbers of a column; None if the file has no such column, or the row no value.
fn numbers(row: &Row<'_>, column: &str) -> Result<Option<Vec<i64>>> {
    let items = match row.find(column) {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::List(items)) => items,
        Some(other) => {
            return Err(bad(row, column, &format!("is {} and no list of numbers", other.kind())));
        }
    };
    let number = |item: &Value| match item {
        Value::Int(number) => Ok(*number),
        Value::Bool(flag) => Ok(i64::from(*flag)),
        other => Err(bad(row, column, &format!("has {} in its list of numbers", other.kind()))),
    };
    items.iter().map(number).collect::<Result<_>>().map(Some)
}

fn check_length(
    row: &Row<'_>,
    column: &str,
    what: &str,
    length: usize,
    limit: Option<TokenLimit>,
) -> Result<()> {
    match limit {
        Some(TokenLimit { tokens, name }) if length > tokens as usize => {
            let has = counted(length, "token");
            Err(bad(row, column, &format!("has {has}, and {what} may have {tokens} ({name})")))
        }
        _ => Ok(()),
    }
}

fn bad(row: &Row<'_>, column: &str, problem: &str) -> Error {
    Error::BadRow { at: row.location(), message: format!("column {column:?} {problem}") }
}
