//! Rows that are a prompt and its completion, which are read as one sequence, and beside it the prompt with the
//! completion of another row.

use super::set::TokenizedSet;
use crate::error::Result;
use crate::tasks::{Continuations, completion_labels};

/// A sequence, and the target of each of its tokens.
pub(crate) struct Continuation {
    pub(crate) input_ids: Vec<u32>,
    pub(crate) targets: Vec<i32>,
}

impl TokenizedSet {
    /// The sequences of a row; None where rows are no prompts with completions.
    pub(crate) fn continuations(&self, row: usize) -> Result<Option<Vec<Continuation>>> {
        let Some(made) = self.task.preprocessor().continuations() else { return Ok(None) };
        let [prompt, own] = self.prompt_and_completion(row)?;
        let other = made.other(row, self.len()).map(|other| self.prompt_and_completion(other));
        let other = other.transpose()?.map(|[_, completion]| completion);
        let sequence = |completion: Vec<u32>| {
            let mut input_ids = [prompt.as_slice(), &completion].concat();
            input_ids.truncate(made.max_length as usize);
            let targets = completion_labels(&input_ids, prompt.len());
            Continuation { input_ids, targets }
        };
        Ok(Some([Some(own), other].into_iter().flatten().map(sequence).collect()))
    }

    /// The positions of the longest sequence of a row.
    pub(super) fn continued_positions(&self, row: usize, made: Continuations) -> u32 {
        let lengths = |row: usize| match self.rows.sequences(row) {
            &[prompt, completion] => (prompt, completion),
            _ => (0, 0),
        };
        let (prompt, own) = lengths(row);
        let other = made.other(row, self.len()).map_or(0, |other| lengths(other).1);
        (prompt + own.max(other)).min(made.max_length)
    }

    fn prompt_and_completion(&self, row: usize) -> Result<[Vec<u32>; 2]> {
        let mut prompt = self.input_ids(row)?;
        let length = self.rows.sequences(row).first().map_or(0, |length| *length as usize);
        let completion = prompt.split_off(length.min(prompt.len()));
        Ok([prompt, completion])
    }
}
