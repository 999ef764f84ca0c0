//! Rows that are tokenized already, as `datasets` saves them after `map`. They are recognized by
//! their columns: `input_ids`, and no column of texts.

use crate::source::Row;
use crate::{Encoded, Error, Result, TextTokenizer, Value};

const INPUT_IDS: &str = "input_ids";
const ATTENTION_MASK: &str = "attention_mask";
const TOKEN_TYPE_IDS: &str = "token_type_ids";

/// The columns of tokens among those of files that have no column `text`; None if they hold texts.
pub(super) fn columns(available: &[String], text: &str) -> Option<Vec<&'static str>> {
    let has = |column: &str| available.iter().any(|name| name == column);
    let others = [ATTENTION_MASK, TOKEN_TYPE_IDS].into_iter().filter(|column| has(column));
    (has(INPUT_IDS) && !has(text)).then(|| std::iter::once(INPUT_IDS).chain(others).collect())
}

/// Returns true if the row holds tokens in place of texts.
pub(super) fn is_tokenized(row: &Row<'_>) -> bool {
    row.find(INPUT_IDS).is_some()
}

/// The tokens of a row, without the padding behind them. Like the Trainer, this cuts nothing: a row
/// that is too long is an error.
pub(super) fn encoded(row: &Row<'_>, tokenizer: &dyn TextTokenizer) -> Result<Encoded> {
    let ids = numbers(row, INPUT_IDS)?.ok_or_else(|| bad(row, INPUT_IDS, "has no value"))?;
    let (mask, types) = (numbers(row, ATTENTION_MASK)?, numbers(row, TOKEN_TYPE_IDS)?);
    for (column, numbers) in [(ATTENTION_MASK, &mask), (TOKEN_TYPE_IDS, &types)] {
        if let Some(numbers) = numbers.as_ref().filter(|numbers| numbers.len() != ids.len()) {
            let problem = format!("has {} numbers for {} tokens", numbers.len(), ids.len());
            return Err(bad(row, column, &problem));
        }
    }
    let attended = mask.unwrap_or_else(|| vec![1; ids.len()]);
    let end = attended.iter().rposition(|&number| number != 0).map_or(0, |last| last + 1);
    if end == 0 {
        return Err(bad(row, INPUT_IDS, "has no tokens"));
    }
    if attended[..end].contains(&0) {
        // Models with absolute positions count those of the padding.
        let problem =
            "has a 0 before tokens that count; pad rows behind their tokens, or not at all";
        return Err(bad(row, ATTENTION_MASK, problem));
    }
    if let Some(max) = tokenizer.max_length().filter(|&max| end > max as usize) {
        let problem = format!("has {end} tokens, and rows may have {max}");
        return Err(bad(row, INPUT_IDS, &problem));
    }
    let vocabulary = i64::from(tokenizer.vocab_size());
    if let Some(id) = ids[..end].iter().find(|id| !(0..vocabulary).contains(*id)) {
        let problem = format!("has the id {id}, and the tokenizer has {vocabulary} tokens");
        return Err(bad(row, INPUT_IDS, &problem));
    }
    let segments = types.unwrap_or_else(|| vec![0; ids.len()]);
    let segment = |number: &i64| u8::try_from(*number);
    let token_type_ids = segments[..end].iter().map(segment).collect::<Result<_, _>>();
    Ok(Encoded {
        input_ids: ids[..end].iter().map(|id| *id as u32).collect(),
        token_type_ids: token_type_ids
            .map_err(|_| bad(row, TOKEN_TYPE_IDS, "has a number that is no segment"))?,
        truncated: false,
    })
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
        other => Err(bad(row, column, &format!("has {} in its list of numbers", other.kind()))),
    };
    items.iter().map(number).collect::<Result<_>>().map(Some)
}

fn bad(row: &Row<'_>, column: &str, problem: &str) -> Error {
    Error::BadRow { at: row.location(), message: format!("column {column:?} {problem}") }
}
