//! The rows of a set that make no example, by cause.

use traind_wording::counted_as;

use super::set::{CountedRows, FileRows, origin_of};
use crate::tasks::{LackingRows, LeftOut};

/// The rows that were left out for each cause but missing texts.
#[derive(Default)]
pub(super) struct LeftOutRows {
    pub(super) too_long: CountedRows,
    no_target: CountedRows,
    no_turns: CountedRows,
    label: CountedRows,
}

impl CountedRows {
    fn add(&mut self, source_row: u32) {
        self.rows += 1;
        self.first.get_or_insert(source_row);
    }
}

impl LeftOutRows {
    pub(super) fn add(&mut self, source_row: u32, cause: LeftOut) {
        match cause {
            LeftOut::TooLong => self.too_long.add(source_row),
            LeftOut::NoTarget => self.no_target.add(source_row),
            LeftOut::NoTurns => self.no_turns.add(source_row),
            LeftOut::Label => self.label.add(source_row),
        }
    }

    /// Warnings about rows of another cause than their length, each with the number of the file of the first one.
    pub(super) fn warnings(&self, files: &[FileRows]) -> Vec<(u32, String)> {
        let causes = [
            (LeftOut::NoTarget, &self.no_target),
            (LeftOut::NoTurns, &self.no_turns),
            (LeftOut::Label, &self.label),
        ];
        let warning = |(cause, found): (LeftOut, &CountedRows)| {
            let (file, row) = origin_of(files, found.first? as usize)?;
            let rows = counted_as(found.rows, "row that has", "rows that have");
            let problem = cause.problem();
            Some((file as u32, format!("left out {rows} {problem}; the first is row {row}")))
        };
        causes.into_iter().filter_map(warning).collect()
    }

    /// Why none of `rows` rows is left: each cause with its number of rows, unless it is the only one.
    pub(super) fn why_all(&self, rows: u64, lacking: &LackingRows) -> String {
        let mut causes = vec![
            (self.too_long.rows, LeftOut::TooLong.problem().to_owned()),
            (self.no_target.rows, LeftOut::NoTarget.problem().to_owned()),
            (self.no_turns.rows, LeftOut::NoTurns.problem().to_owned()),
            (self.label.rows, LeftOut::Label.problem().to_owned()),
        ];
        let others = rows - causes.iter().map(|(count, _)| count).sum::<u64>();
        let without_text = others.max(lacking.left_out);
        let no_text = match &lacking.first {
            Some((_, column)) if without_text == 1 => format!("no text in column {column:?}"),
            Some((_, column)) => format!("no text in a column such as {column:?}"),
            None => "no text".to_owned(),
        };
        causes.push((without_text, no_text));
        causes.retain(|(count, _)| *count > 0);
        match causes.as_slice() {
            [(1, problem)] => format!("it has {problem}"),
            [(_, problem)] => format!("they have {problem}"),
            _ => {
                let with_counts = causes.iter().map(|(count, problem)| {
                    format!("{} {problem}", counted_as(count, "has", "have"))
                });
                with_counts.collect::<Vec<_>>().join("; ")
            }
        }
    }
}
