//! Rows that are a text each, and rows that are tokenized already.

use super::fields::{INPUT_IDS, LABELS};
use super::{RowLayout, Tokens};
use crate::chat::RowTexts;
use crate::{Error, IGNORED_LABEL, Result, Value};

/// Rows of `max_length` tokens that a text is cut to at most, as in axolotl.
const ROWS_PER_TEXT_MAX: u32 = 64;

/// A text with the token that ends it, in rows of up to `max_length` tokens.
pub(super) fn completion(
    layout: &RowLayout,
    texts: &RowTexts<'_>,
    max_length: u32,
) -> Result<Vec<Tokens>> {
    let text = layout.text(texts, &layout.fields.text)?;
    let longest = max_length.saturating_mul(ROWS_PER_TEXT_MAX);
    let mut ids = texts.encode_up_to(text, longest)?;
    let eos_id = texts.token_id(texts.eos_token)?;
    if let Some(eos_id) = eos_id
        && !ids.is_empty()
        && ids.last() != Some(&eos_id)
        && ids.len() < longest as usize
    {
        ids.push(eos_id);
    }
    let row = |ids: &[u32]| {
        let mut row = Tokens::default();
        row.push(ids, true);
        row
    };
    Ok(ids.chunks(max_length.max(1) as usize).map(row).collect())
}

/// Tokens of the data, whose labels are the tokens themselves or [`IGNORED_LABEL`].
pub(super) fn pretokenized(texts: &RowTexts<'_>) -> Result<Tokens> {
    let ids = numbers(texts, INPUT_IDS)?;
    let input_ids: Option<Vec<u32>> = ids.iter().map(|id| u32::try_from(*id).ok()).collect();
    let input_ids = input_ids.ok_or_else(|| bad(texts, INPUT_IDS, "has an id below 0"))?;
    let vocabulary = texts.tokenizer.vocab_size();
    if let Some(id) = input_ids.iter().find(|id| **id >= vocabulary) {
        let problem = format!("has the id {id}, but the tokenizer has {vocabulary} tokens");
        return Err(bad(texts, INPUT_IDS, &problem));
    }
    let labels = match texts.row.find(LABELS) {
        None | Some(Value::Null) => ids,
        Some(_) => numbers(texts, LABELS)?,
    };
    let label = |label: &i64| {
        let id = i32::try_from(*label).ok()?;
        (id == IGNORED_LABEL || (0..i64::from(vocabulary)).contains(label)).then_some(id)
    };
    let labels: Option<Vec<i32>> = labels.iter().map(label).collect();
    match labels {
        Some(labels) if labels.len() == input_ids.len() => Ok(Tokens { input_ids, labels }),
        Some(labels) => {
            let problem = format!("has {} labels for {} tokens", labels.len(), input_ids.len());
            Err(bad(texts, LABELS, &problem))
        }
        None => Err(bad(texts, LABELS, "has labels that are neither tokens nor -100")),
    }
}

fn numbers(texts: &RowTexts<'_>, column: &str) -> Result<Vec<i64>> {
    let Value::List(items) = texts.row.cell(column) else {
        return Err(bad(texts, column, "is no list of numbers"));
    };
    let number = |item: &Value| match item {
        Value::Int(number) => Ok(*number),
        _ => Err(bad(texts, column, "is no list of whole numbers")),
    };
    items.iter().map(number).collect()
}

fn bad(texts: &RowTexts<'_>, column: &str, problem: &str) -> Error {
    Error::BadRow { at: texts.row.location(), message: format!("column {column:?} {problem}") }
}
