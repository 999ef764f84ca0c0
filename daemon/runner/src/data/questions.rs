//! The questions of an evaluated split, whose contexts turn positions into text.

use traind_loader::squad::{self, Question};
use traind_loader::{DatasetOptions, TokenizedSet};

use crate::error::RunResult;

/// In dataset order.
#[derive(Debug, Default)]
pub(crate) struct Questions {
    questions: Vec<Question>,
    /// The row of the files that each came from, ascending: a split may have some only.
    rows: Vec<usize>,
}

impl Questions {
    /// Those of `set`, which was read with `options`.
    pub(super) fn read(options: &DatasetOptions, set: &TokenizedSet) -> RunResult<Questions> {
        let mut rows: Vec<usize> = (0..set.len()).map(|row| set.source_row(row)).collect();
        rows.sort_unstable();
        rows.dedup();
        let questions = squad::read_questions(options, |row| rows.binary_search(&row).is_ok())?;
        Ok(Questions { questions, rows })
    }

    pub(crate) fn all(&self) -> &[Question] {
        &self.questions
    }

    /// Which of them a row of the files is.
    pub(crate) fn place(&self, source_row: usize) -> Option<usize> {
        self.rows.binary_search(&source_row).ok()
    }
}
