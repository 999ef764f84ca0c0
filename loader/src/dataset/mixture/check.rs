//! Checks rows before a run, without their tokens: each by itself, and the labels of all together where all are read.

use std::collections::{HashMap, HashSet};
use std::ops::ControlFlow;

use super::part::SourcePart;
use crate::error::{Location, Result};
use crate::labels::{LabelEncoder, LabelLists, LabelReader, RowLabel, TokenLabel, about_doubtful};
use crate::source::{Place, Row};
use crate::tasks::{LackingRows, Preprocessor, SetContext, TaskSpec};

/// The most rows without a text that are read to find one that has its texts.
const LACKING_ROWS_MAX: u64 = 100_000;

/// The rows of a split as far as they are checked.
pub(super) struct RowsCheck<'a> {
    task: &'a TaskSpec,
    preprocessor: &'a dyn Preprocessor,
    context: &'a SetContext<'a>,
    /// The rows to check of each part behind the first ones that lack a text.
    rows_max: u64,
    labels: SeenLabels<'a>,
    /// The rows that lack a text.
    pub(super) lacking: LackingRows,
    /// The rows up to the first that has its texts; None where one has.
    pub(super) without_texts: Option<u64>,
    /// Whether a row makes an example, whatever its tokens are.
    has_example: bool,
    /// Whether all rows were checked.
    is_whole: bool,
}

/// The rows that were read of a part.
struct PartRows {
    /// The rows that the run may still read.
    left: u64,
    lacking: u64,
    checked: u64,
}

impl<'a> RowsCheck<'a> {
    pub(super) fn new(task: &'a TaskSpec, context: &'a SetContext<'a>, rows_max: u64) -> Self {
        Self {
            task,
            preprocessor: task.preprocessor(),
            context,
            rows_max,
            labels: SeenLabels::default(),
            lacking: LackingRows::default(),
            without_texts: Some(0),
            has_example: false,
            is_whole: true,
        }
    }

    /// Leaves out rows that the run may not read.
    pub(super) fn pass_over(&mut self) {
        (self.without_texts, self.is_whole) = (None, false);
    }

    /// Checks the rows of a part, at most the first `limit`.
    pub(super) fn part(&mut self, part: &'a SourcePart, limit: Option<u64>) -> Result<()> {
        self.labels.parts.push(part);
        let columns = self.task.columns_of_set(part.set, part.source.columns());
        let mut rows = PartRows { left: limit.unwrap_or(u64::MAX), lacking: 0, checked: 0 };
        let (mut failed, mut ends) = (None, false);
        let read = part.source.read_until(&columns, |place, records| {
            for record in 0..records.len() {
                let row = Row {
                    source: &part.source,
                    set: part.set,
                    first_file: part.first_file,
                    part: place,
                    records,
                    record,
                };
                match self.row(&row, &mut rows) {
                    Ok(ControlFlow::Continue(())) => {}
                    Ok(ControlFlow::Break(())) => ends = true,
                    Err(error) => failed = Some(error),
                }
                if ends || failed.is_some() {
                    return false;
                }
            }
            true
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if ends {
            (self.without_texts, self.is_whole) = (None, false);
        }
        read
    }

    /// Checks a row, unless enough were checked.
    fn row(&mut self, row: &Row<'_>, rows: &mut PartRows) -> Result<ControlFlow<()>> {
        if rows.left == 0 || rows.checked >= self.rows_max || rows.lacking >= LACKING_ROWS_MAX {
            return Ok(ControlFlow::Break(()));
        }
        rows.left -= 1;
        if let Some(lack) = self.task.lack_of_row(row) {
            rows.lacking += 1;
            rows.checked += u64::from(rows.checked > 0);
            if let Some(without_texts) = &mut self.without_texts {
                self.lacking.add(*without_texts as u32, &lack, None);
                *without_texts += 1;
            }
            return Ok(ControlFlow::Continue(()));
        }
        self.without_texts = None;
        rows.checked += 1;
        let context = self.context;
        let labels = context.labels.as_ref();
        if labels.is_some_and(|labels| labels.leaves_out(row)) {
            return Ok(ControlFlow::Continue(()));
        }
        labels.map_or(Ok(None), |labels| labels.read_weight(row))?;
        let examples = self.preprocessor.encode(row, context)?;
        self.has_example |= !examples.is_empty() && !self.may_be_too_long(row);
        for example in examples {
            if let Some(label) = example.label {
                self.labels.push(label, row.place());
            }
        }
        labels.map_or(Ok(()), LabelReader::check_count)?;
        Ok(ControlFlow::Continue(()))
    }

    /// Returns false for rows without more bytes than tokens are allowed: a token has one at least.
    fn may_be_too_long(&self, row: &Row<'_>) -> bool {
        let length =
            self.context.tokenizer.max_length().filter(|_| self.task.leaves_out_long_rows());
        length.is_some_and(|length| row.records.bytes_of(row.record) > length as usize)
    }

    /// Returns true if all rows were checked, and their tokens decide whether any makes an example.
    pub(super) fn needs_tokens(&self) -> bool {
        self.is_whole && self.without_texts.is_none() && !self.has_example
    }

    /// Returns the rule of the labels of all rows, or fails where a label has no id; None where not all rows were
    /// checked.
    pub(super) fn settle(self) -> Result<Settled> {
        match (&self.context.labels, self.is_whole && self.without_texts.is_none()) {
            (_, false) => Ok(Settled::default()),
            (None, true) => Ok(Settled { rule: Some(None), ..Settled::default() }),
            (Some(reader), true) => {
                let settled = self.labels.settle(reader);
                settled.map_err(|error| self.task.about_classes(error))
            }
        }
    }
}

/// The labels of rows that were checked.
#[derive(Default)]
pub(super) struct Settled {
    /// The rule by which labels become ids, itself none where they are no classes; None where not all rows were
    /// checked.
    pub(super) rule: Option<Option<LabelEncoder>>,
    /// Warnings about classes that may be none.
    pub(super) doubtful: Vec<String>,
}

/// The labels so far.
#[derive(Default)]
struct SeenLabels<'a> {
    /// The parts so far.
    parts: Vec<&'a SourcePart>,
    /// Each class with the place where it is first, and the number of its part. The line of a place is counted only for
    /// an error: for each of many classes, that would read the file again.
    classes: Vec<(TokenLabel, (usize, Place))>,
    known: HashSet<TokenLabel>,
    /// The rows of each class that is the label of rows.
    rows: HashMap<u32, u64>,
    /// The lists of rows, with their places.
    lists: LabelLists,
    places: Vec<(usize, Place)>,
}

impl SeenLabels<'_> {
    /// Adds the label of a row of the newest part.
    fn push(&mut self, label: RowLabel, place: Place) {
        let at = (self.parts.len() - 1, place);
        match label {
            RowLabel::Class(number) => {
                *self.rows.entry(number).or_default() += 1;
                self.class(TokenLabel { number, continues: false }, at);
            }
            RowLabel::Tokens(tokens) => {
                tokens.into_iter().flatten().for_each(|label| self.class(label, at));
            }
            RowLabel::Many(numbers, are_flags) => {
                self.lists.push(&numbers, are_flags);
                self.places.push(at);
                for number in numbers {
                    self.class(TokenLabel { number, continues: false }, at);
                }
            }
            RowLabel::Numbers(_) | RowLabel::TokenIds(_) | RowLabel::Span(..) => {}
        }
    }

    fn class(&mut self, label: TokenLabel, at: (usize, Place)) {
        if self.known.insert(label) {
            self.classes.push((label, at));
        }
    }

    fn location(&self, (part, place): (usize, Place)) -> Location {
        self.parts[part].source.location_of(place)
    }

    /// Fails where a label has no id by the rule of all of them.
    fn settle(&self, reader: &LabelReader<'_>) -> Result<Settled> {
        if !self.places.is_empty() {
            let at =
                |row: u64, problem| reader.error(self.location(self.places[row as usize]), problem);
            if let Some((encoder, _)) = reader.one_hot(&self.lists, at)? {
                return Ok(Settled { rule: Some(Some(encoder)), ..Settled::default() });
            }
        }
        let (encoder, ids) = reader.rule()?;
        let mut rows_of_ids: HashMap<usize, u64> = HashMap::new();
        for (label, at) in &self.classes {
            let id = ids.of(*label).map_err(|problem| reader.error(self.location(*at), problem))?;
            let rows = self.rows.get(&label.number).copied().unwrap_or_default();
            *rows_of_ids.entry(id.max(0) as usize).or_default() += rows;
        }
        let rows_of = |id: usize| rows_of_ids.get(&id).copied().unwrap_or_default();
        let doubtful = about_doubtful(encoder.as_ref(), rows_of);
        Ok(Settled { rule: Some(encoder), doubtful })
    }
}
