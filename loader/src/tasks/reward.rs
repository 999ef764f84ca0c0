//! Pairs of texts of which one is to have the larger reward, as `RewardTrainer` of TRL prepares them.
//!
//! An example is the prompt with the chosen completion, and behind it the prompt with the rejected one. Its label is
//! the margin by which the reward of the first is to exceed that of the second, 0 where files have none.

use serde::Serialize;

use super::dpo::Pair;
use super::embedding::joined;
use super::{Dpo, Example, LeftOut, Preprocessor, SetContext, text_arrays};
use crate::batch::{ArraySpec, Padding, ROWS};
use crate::error::Result;
use crate::labels::{LabelKind, LabelSpec, Labels, RowLabel};
use crate::source::Row;
use crate::tokenize::{Encoded, TextTokenizer};

/// The columns and settings of a reward model's rows.
#[derive(Clone, Debug, Serialize)]
pub struct Reward {
    /// The pairs. Rows with a sequence of more than `max_length` tokens make no example.
    pub pairs: Dpo,
    /// The column of margins, if files have it.
    pub margin: Option<LabelSpec>,
}

impl Reward {
    /// Reads margins in the column `margin` of files that have it.
    pub fn new(pairs: Dpo, margin: String) -> Reward {
        let kind = LabelKind::Regression { num_labels: 1 };
        Reward {
            pairs,
            margin: Some(LabelSpec { column: margin, kind, weight: None, ignored: Vec::new() }),
        }
    }

    /// The same task for files with the columns `available`.
    pub(super) fn for_columns(&self, available: &[String]) -> Reward {
        let has = |spec: &LabelSpec| available.contains(&spec.column);
        Reward { margin: self.margin.clone().filter(has), ..self.clone() }
    }

    fn example(&self, pair: Pair, margin: RowLabel) -> Option<Example> {
        let sequences = [pair.chosen, pair.rejected];
        if sequences.iter().any(|ids| ids.len() > self.pairs.max_length as usize) {
            return None;
        }
        let texts = sequences.map(Encoded::of_one_text).into();
        Some(Example { label: Some(margin), ..joined(texts) })
    }
}

impl Preprocessor for Reward {
    fn columns(&self) -> Vec<&str> {
        let margin = self.margin.as_ref().map(|spec| spec.column.as_str());
        self.pairs.columns().into_iter().chain(margin).collect()
    }

    fn columns_of_set(&self, set: usize, available: &[String]) -> Vec<&str> {
        let margin = self.margin.as_ref().map(|spec| spec.column.as_str());
        self.pairs.columns_of_set(set, available).into_iter().chain(margin).collect()
    }

    fn columns_among(&self, available: &[String]) -> Vec<&str> {
        self.columns_of_set(0, available)
    }

    fn check(&self, tokenizer: &dyn TextTokenizer) -> Result<()> {
        self.pairs.check(tokenizer)
    }

    fn labels(&self) -> Option<&LabelSpec> {
        self.margin.as_ref()
    }

    fn encode(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Vec<Example>> {
        let pair = self.pairs.pair(&self.pairs.row_texts(row, context))?;
        let margin = match &context.labels {
            Some(margins) => margins.read(row)?,
            None => RowLabel::Numbers(vec![0.0]),
        };
        Ok(pair.and_then(|pair| self.example(pair, margin)).into_iter().collect())
    }

    fn arrays(&self, _labels: &Labels, padding: &Padding) -> Vec<ArraySpec> {
        let mut arrays = text_arrays(padding);
        arrays.push(ArraySpec::f32("labels", &[ROWS], 0.0, |row| row.numbers()));
        arrays
    }

    fn sequences_per_row(&self) -> usize {
        2
    }

    fn why_left_out(&self, row: &Row<'_>, context: &SetContext<'_>) -> Result<Option<LeftOut>> {
        self.pairs.why_left_out(row, context)
    }
}
