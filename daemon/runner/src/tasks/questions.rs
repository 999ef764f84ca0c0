//! The questions of an evaluated split, whose contexts turn positions into text.

use traind_loader::squad::{self, Question};
use traind_loader::{DatasetOptions, TokenizedSet};

use crate::error::RunResult;

/// Questions in dataset order.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    questions: Vec<Question>,
    /// The row of the files that each comes from, ascending; a split may lack some rows.
    source_rows: Vec<usize>,
}

impl Questions {
    /// Reads the questions of `set`, which was prepared with `options`.
    pub(crate) fn read(options: &DatasetOptions, set: &TokenizedSet) -> RunResult<Questions> {
        let mut source_rows: Vec<usize> = (0..set.len()).map(|row| set.source_row(row)).collect();
        source_rows.sort_unstable();
        source_rows.dedup();
        let is_in_split = |row| source_rows.binary_search(&row).is_ok();
        let questions = squad::read_questions(options, is_in_split)?;
        Ok(Questions { questions, source_rows })
    }

    pub(super) fn all(&self) -> &[Question] {
        &self.questions
    }

    /// Returns the index of the question from a row of the files.
    pub(super) fn index(&self, source_row: usize) -> Option<usize> {
        self.source_rows.binary_search(&source_row).ok()
    }
}
