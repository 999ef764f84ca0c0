//! Finds files of which no row makes an example, as only their tokens show. Nothing is written: a planner may not.

use super::super::left_out::LeftOutRows;
use super::Mixture;
use super::part::SourcePart;
use super::sources::{files_of, label_reader, open_parts};
use crate::error::{Error, Result};
use crate::source::Row;
use crate::tasks::{LackingRows, LeftOut, SetContext, TaskSpec};
use crate::token_row::TokenLimits;
use crate::tokenize::TextTokenizer;

/// Fails where no row makes an example. Reads rows up to the first that makes one.
pub(in crate::dataset) fn require_example(
    mixture: &Mixture,
    task: &TaskSpec,
    tokenizer: &dyn TextTokenizer,
    limits: TokenLimits,
) -> Result<()> {
    let (parts, task) = open_parts(mixture, task, limits)?;
    task.preprocessor().check(tokenizer)?;
    let context = SetContext { tokenizer, labels: label_reader(&task, &parts) };
    let mut search = Search {
        task: &task,
        context: &context,
        rows: 0,
        lacking: LackingRows::default(),
        left_out: LeftOutRows::default(),
    };
    for part in &parts {
        if search.finds_example(part)? {
            return Ok(());
        }
    }
    let why = search.left_out.why_all(search.rows, &search.lacking);
    Err(Error::NoRowsLeft { files: files_of(&parts), rows: search.rows, why })
}

/// The rows so far, none of which makes an example.
struct Search<'a> {
    task: &'a TaskSpec,
    context: &'a SetContext<'a>,
    rows: u64,
    lacking: LackingRows,
    left_out: LeftOutRows,
}

impl Search<'_> {
    /// Reads the rows of a part up to the first that makes an example.
    fn finds_example(&mut self, part: &SourcePart) -> Result<bool> {
        let columns = self.task.columns_of_set(part.set, part.source.columns());
        let mut found = Ok(false);
        let read = part.source.read_until(&columns, |place, records| {
            for record in 0..records.len() {
                let (source, set, first_file) = (&part.source, part.set, part.first_file);
                let row = Row { source, set, first_file, part: place, records, record };
                found = self.makes_example(&row);
                if !matches!(found, Ok(false)) {
                    return false;
                }
            }
            true
        });
        if matches!(found, Ok(false)) {
            read?;
        }
        found
    }

    fn makes_example(&mut self, row: &Row<'_>) -> Result<bool> {
        let number = self.rows as u32;
        self.rows += 1;
        if self.context.labels.as_ref().is_some_and(|labels| labels.leaves_out(row)) {
            self.left_out.add(number, LeftOut::Label);
            return Ok(false);
        }
        if let Some(lack) = self.task.lack_of_row(row) {
            self.lacking.add(number, &lack, None);
            return Ok(false);
        }
        let preprocessor = self.task.preprocessor();
        if !preprocessor.encode(row, self.context)?.is_empty() {
            return Ok(true);
        }
        if let Some(cause) = preprocessor.why_left_out(row, self.context)? {
            self.left_out.add(number, cause);
        }
        Ok(false)
    }
}
