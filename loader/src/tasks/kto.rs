//! Completions that are desirable or not, as `KTOTrainer` of TRL prepares them.
//!
//! An example is a prompt and behind it its completion, and its label is 1 or 0. A model reads them as one sequence,
//! and with `rotation` as a second one the prompt with the completion of another row, by which the divergence from the
//! reference is estimated: that of the row before, within blocks of so many rows, or of the block's last row for its
//! first.

use serde::Serialize;

use super::dpo::{Pair, chat_text};
use super::{Dpo, Example, LeftOut, Preprocessor, SetContext, text_arrays};
use crate::batch::{ArraySpec, POSITIONS, Padding, ROWS};
use crate::chat::{RowTexts, shared_tokens, template_columns};
use crate::error::{ChatProblem, Error, Result};
use crate::labels::{IGNORED_LABEL, Labels, RowLabel};
use crate::layouts::Answered;
use crate::source::{Row, Value};
use crate::tokenize::{Encoded, TextTokenizer};

/// Rows of files that are unpaired together: first those of their chosen completions, then the rejected ones.
const UNPAIRED_TOGETHER: u32 = 1000;

/// The columns and settings of Kahneman–Tversky optimization.
#[derive(Clone, Debug, Serialize)]
pub struct Kto {
    /// The columns of files whose rows are pairs, of which each makes two examples, and the other settings.
    pub pairs: Dpo,
    /// The column of completions.
    pub completion: String,
    /// The column that is true for desirable completions.
    pub label: String,
    /// The rows of a block whose completions change places; None without second sequences.
    pub rotation: Option<u32>,
    /// Whether files have pairs. Known with their columns.
    pub is_paired: bool,
}

impl Kto {
    /// The same task for files with the columns `available`.
    pub(super) fn for_columns(&self, available: &[String]) -> Kto {
        let columns = [&self.pairs.chosen, &self.pairs.rejected];
        let is_paired = columns.into_iter().all(|column| available.contains(column));
        Kto { is_paired, ..self.clone() }
    }

    /// Whether the completion of a row is desirable.
    fn is_desirable(&self, row: &Row<'_>) -> Result<bool> {
        let cell = row.cell(&self.label);
        cell.truth().ok_or_else(|| {
            let found = match cell {
                Value::Text(text) => format!("{text:?}"),
                other => other.kind().to_owned(),
            };
            let message = format!(
                "column {:?}: must be true for a desirable completion or false, found {found}",
                self.label
            );
            Error::BadRow { at: row.location(), message }
        })
    }

    /// The tokens of a prompt, and of it with its completion; None for rows that a layout leaves out.
    fn sequence(&self, texts: &RowTexts<'_>) -> Result<Option<[Vec<u32>; 2]>> {
        let Some(layouts) = &self.pairs.layouts else {
            return self.columns_sequence(texts).map(Some);
        };
        let answered = layouts.last_answer(texts, self.pairs.max_length)?;
        Ok(answered.and_then(|Answered { prompt, mut wholes }| Some([prompt, wholes.pop()?])))
    }

    /// The tokens of a row of the columns of prompts and completions.
    fn columns_sequence(&self, texts: &RowTexts<'_>) -> Result<[Vec<u32>; 2]> {
        let (row, column) = (texts.row, &self.pairs.prompt);
        match (row.cell(column), row.cell(&self.completion)) {
            (Value::List(prompt), Value::List(completion)) => {
                let ids = |column: &str, completion: Option<&[Value]>| {
                    texts.ids_as_it_is(&chat_text(texts, column, prompt, completion)?)
                };
                Ok([ids(column, None)?, ids(&self.completion, Some(completion))?])
            }
            (Value::List(_), _) | (_, Value::List(_)) => {
                Err(texts.problem(column, ChatProblem::Mixed))
            }
            _ => {
                let prompt = row.text_or_empty(column)?;
                let completion = texts.ended(row.text_or_empty(&self.completion)?)?;
                let whole = texts.encode(&format!("{prompt}{completion}"))?.input_ids;
                Ok([texts.encode(prompt)?.input_ids, whole])
            }
        }
    }

    /// The example of a prompt and the same with its completion; None where the prompt fills `max_length`.
    fn example(&self, prompt: &[u32], mut whole: Vec<u32>, is_desirable: bool) -> Option<Example> {
        let (length, max) = (shared_tokens(prompt, &whole), self.pairs.max_length as usize);
        if length >= max {
            return None;
        }
        let truncated = whole.len() > max;
        // The completion may follow a shorter prompt.
        whole.truncate(length + max);
        let sequence_lengths = vec![length as u32, (whole.len() - length) as u32];
        let encoded = Encoded { truncated, ..Encoded::of_one_text(whole) };
        let label = Some(RowLabel::Numbers(vec![f32::from(is_desirable)]));
        Some(Example { encoded, sequence_lengths, label, ..Example::default() })
    }
}

impl Preprocessor for Kto {
    fn columns(&self) -> Vec<&str> {
        match self.is_paired {
            true => self.pairs.columns(),
            false => vec![&self.pairs.prompt, &self.completion, &self.label],
        }
    }

    fn columns_of_set(&self, set: usize, available: &[String]) -> Vec<&str> {
        if self.pairs.layouts.is_none() {
            return self.columns_among(available);
        }
        let label = (!self.is_paired).then_some(self.label.as_str());
        self.pairs.columns_of_set(set, available).into_iter().chain(label).collect()
    }

    fn columns_among(&self, available: &[String]) -> Vec<&str> {
        match self.is_paired {
            true => self.pairs.columns_among(available),
            false => self.columns().into_iter().chain(template_columns(available)).collect(),
        }
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        self.pairs.check(tokenizer)
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let texts = self.pairs.row_texts(row, context);
        if !self.is_paired {
            let Some([prompt, whole]) = self.sequence(&texts)? else { return Ok(Vec::new()) };
            return Ok(self.example(&prompt, whole, self.is_desirable(row)?).into_iter().collect());
        }
        let Some(Pair { prompt, chosen, rejected }) = self.pairs.pair(&texts)? else {
            return Ok(Vec::new());
        };
        let wholes = [(chosen, true), (rejected, false)].into_iter();
        Ok(wholes.filter_map(|(whole, flag)| self.example(&prompt, whole, flag)).collect())
    }

    fn arrays(&self, _labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = text_arrays(padding);
        let sizes = [ROWS, POSITIONS];
        arrays.push(ArraySpec::s32("labels", &sizes, IGNORED_LABEL, |row| row.targets()));
        arrays.push(ArraySpec::f32("desirable", &[ROWS], 0.0, |row| row.numbers()));
        arrays
    }

    fn sequences_per_row(&self) -> usize {
        if self.rotation.is_some() { 2 } else { 1 }
    }

    fn why_left_out(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Option<LeftOut>> {
        if self.is_paired {
            return self.pairs.why_left_out(row, context);
        }
        let sequence = self.sequence(&self.pairs.row_texts(row, context))?;
        Ok(Some(sequence.map_or(LeftOut::NoTurns, |_| LeftOut::TooLong)))
    }

    fn continuations(&self) -> Option<Continuations> {
        Some(Continuations { max_length: self.pairs.max_length, rotation: self.rotation })
    }

    /// Pairs stand in the order in which TRL unpairs them, so that the row before is of another prompt.
    fn order(&self, source_rows: &[u32], labels: &Labels) -> Option<Vec<usize>> {
        if !self.is_paired {
            return None;
        }
        let Labels::Numbers { values, .. } = labels else { return None };
        let mut order: Vec<usize> = (0..source_rows.len()).collect();
        order.sort_by_key(|&row| {
            let block = source_rows[row] / UNPAIRED_TOGETHER;
            (block, values.get(row).is_some_and(|label| *label < 0.5), source_rows[row])
        });
        Some(order)
    }
}

/// How the sequences of such rows are made of their prompts and completions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Continuations {
    /// The tokens that a sequence is cut to.
    pub(crate) max_length: u32,
    /// The rows of a block, in which each prompt is also read with the completion of the row before, and the first
    /// with that of the last.
    pub(crate) rotation: Option<u32>,
}

impl Continuations {
    /// The row whose completion is read with the prompt of `row`, one of `rows`.
    pub(crate) fn other(self, row: usize, rows: usize) -> Option<usize> {
        let block = self.rotation?.max(1) as usize;
        let first = row - row % block;
        Some(if row > first { row - 1 } else { (first + block).min(rows) - 1 })
    }
}

#[cfg(test)]
mod tests {
    use super::Continuations;

    #[test]
    fn completions_change_places_within_blocks() {
        let others = |rows: usize, rotation| -> Vec<Option<usize>> {
            let made = Continuations { max_length: 8, rotation };
            (0..rows).map(|row| made.other(row, rows)).collect()
        };
        assert_eq!(others(5, Some(3)), [2, 0, 1, 4, 3].map(Some));
        // A block of one row has no other completion.
        assert_eq!(others(4, Some(3)), [2, 0, 1, 3].map(Some));
        assert_eq!(others(2, None), [None, None]);
    }
}
