//! Collects the labels of rows and turns them into ids once the last row is read: those of rows
//! stay in memory, those of tokens are written to disk.

use std::path::{Path, PathBuf};

use super::array::{Array, ArrayWriter, Seal};
use super::tokens::LABELS;
use crate::error::{Error, LabelProblem, Result};
use crate::labels::{
    IGNORED_LABEL, LabelEncoder, LabelLists, LabelReader, Labels, MultiLabels, NumberedIds,
    RowLabel, TokenLabel,
};

/// The numbers of tokens' labels, until their ids are known. Never part of a finished set.
const NUMBERS: &str = "unsettled.u32";
/// Stands for a token without label.
const NO_LABEL: u32 = u32::MAX;

/// The labels so far.
pub(super) struct Targets {
    folder: PathBuf,
    labels: Unsettled,
}

/// Classes are numbers that the reader gave them.
enum Unsettled {
    None,
    Class(Vec<u32>),
    Numbers(Vec<f32>),
    Many(LabelLists),
    Token(Box<ArrayWriter<u32>>),
    TokenIds(Box<ArrayWriter<i32>>),
    Span { start_positions: Vec<i32>, end_positions: Vec<i32> },
}

/// The targets of a set.
pub(super) struct Settled {
    pub(super) labels: Labels,
    pub(super) of_tokens: Option<(Array<i32>, Seal)>,
    pub(super) encoder: Option<LabelEncoder>,
}

/// A label without id.
pub(super) struct BadLabel {
    /// A row of the set, or one of all its tokens, from 0.
    pub(super) item: u64,
    pub(super) of_token: bool,
    pub(super) problem: LabelProblem,
}

impl Targets {
    /// Labels of tokens are kept in `folder`.
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf(), labels: Unsettled::None }
    }

    /// Takes the label of the next example. All examples have labels of one kind.
    pub(super) fn push(&mut self, label: RowLabel) -> Result<()> {
        if let Unsettled::None = self.labels {
            self.labels = self.begun(&label)?;
        }
        match (&mut self.labels, label) {
            (Unsettled::Class(numbers), RowLabel::Class(number)) => numbers.push(number),
            (Unsettled::Numbers(numbers), RowLabel::Numbers(of_row)) => numbers.extend(of_row),
            (Unsettled::Many(lists), RowLabel::Many(numbers, are_flags)) => {
                lists.push(&numbers, are_flags);
            }
            (Unsettled::Token(writer), RowLabel::Tokens(tokens)) => {
                let packed: Vec<u32> = tokens.into_iter().map(packed).collect();
                writer.extend(&packed)?;
            }
            (Unsettled::TokenIds(writer), RowLabel::TokenIds(ids)) => writer.extend(&ids)?,
            (Unsettled::Span { start_positions, end_positions }, RowLabel::Span(start, end)) => {
                start_positions.push(start);
                end_positions.push(end);
            }
            (_, other) => unreachable!("a task gave labels of two kinds, the second {other:?}"),
        }
        Ok(())
    }

    fn begun(&self, label: &RowLabel) -> Result<Unsettled> {
        Ok(match label {
            RowLabel::Class(_) => Unsettled::Class(Vec::new()),
            RowLabel::Numbers(_) => Unsettled::Numbers(Vec::new()),
            RowLabel::Many(..) => Unsettled::Many(LabelLists::default()),
            RowLabel::Tokens(_) => {
                Unsettled::Token(Box::new(ArrayWriter::create(&self.folder, NUMBERS)?))
            }
            RowLabel::TokenIds(_) => {
                Unsettled::TokenIds(Box::new(ArrayWriter::create(&self.folder, LABELS)?))
            }
            RowLabel::Span(..) => {
                Unsettled::Span { start_positions: Vec::new(), end_positions: Vec::new() }
            }
        })
    }

    /// Turns numbers into ids. `at` makes the error for a label without one.
    pub(super) fn settle(
        self,
        reader: Option<&LabelReader<'_>>,
        at: impl Fn(BadLabel) -> Error,
    ) -> Result<Settled> {
        if let (Unsettled::Many(lists), Some(reader)) = (&self.labels, reader) {
            let at = |item, problem| at(BadLabel { item, of_token: false, problem });
            if let Some((encoder, rows)) = reader.one_hot(lists, at)? {
                let labels = Labels::MultiLabel(MultiLabels::of_rows(encoder.num_labels(), rows));
                return Ok(Settled { labels, of_tokens: None, encoder: Some(encoder) });
            }
        }
        let (encoder, ids) = match reader {
            Some(reader) => reader.rule()?,
            None => (None, NumberedIds::default()),
        };
        let labels = match self.labels {
            Unsettled::None => Labels::None,
            Unsettled::Class(numbers) => Labels::Class(class_ids(&numbers, &ids).map_err(at)?),
            Unsettled::Numbers(values) => {
                Labels::Numbers { width: reader.map_or(1, LabelReader::width), values }
            }
            Unsettled::Many(lists) => {
                let row = |(row, numbers): (u64, &[u32])| {
                    let mut ids = class_ids(numbers, &ids)
                        .map_err(|bad| at(BadLabel { item: row, ..bad }))?;
                    // Numbers come in the order of threads; ids must not.
                    ids.sort_unstable();
                    ids.dedup();
                    Ok(ids)
                };
                let rows = (0..).zip(lists.rows()).map(row).collect::<Result<Vec<_>>>()?;
                let classes = encoder.as_ref().map_or(0, LabelEncoder::num_labels);
                Labels::MultiLabel(MultiLabels::of_rows(classes, rows))
            }
            Unsettled::Token(numbers) => {
                let of_tokens = Some(token_ids(*numbers, &self.folder, &ids, at)?);
                return Ok(Settled { labels: Labels::Token, of_tokens, encoder });
            }
            Unsettled::TokenIds(writer) => {
                let of_tokens = Some(writer.finish()?);
                return Ok(Settled { labels: Labels::Token, of_tokens, encoder: None });
            }
            Unsettled::Span { start_positions, end_positions } => {
                Labels::Span { start_positions, end_positions }
            }
        };
        Ok(Settled { labels, of_tokens: None, encoder })
    }
}

fn class_ids(numbers: &[u32], ids: &NumberedIds) -> Result<Vec<i32>, BadLabel> {
    let numbered = numbers.iter().zip(0..);
    let id = |(&number, item)| {
        let id = ids.of(TokenLabel { number, continues: false });
        id.map_err(|problem| BadLabel { item, of_token: false, problem })
    };
    numbered.map(id).collect()
}

fn token_ids(
    numbers: ArrayWriter<u32>,
    folder: &Path,
    ids: &NumberedIds,
    at: impl Fn(BadLabel) -> Error,
) -> Result<(Array<i32>, Seal)> {
    let (numbers, _) = numbers.finish()?;
    let mut labels = ArrayWriter::create(folder, LABELS)?;
    for chunk in numbers.chunks() {
        let (chunk, before) = (chunk?, labels.len());
        let id = |(&packed, item)| match unpacked(packed) {
            Some(label) => {
                ids.of(label).map_err(|problem| at(BadLabel { item, of_token: true, problem }))
            }
            None => Ok(IGNORED_LABEL),
        };
        let settled = chunk.iter().zip(before..).map(id).collect::<Result<Vec<i32>>>()?;
        labels.extend(&settled)?;
    }
    std::fs::remove_file(folder.join(NUMBERS)).map_err(Error::store(folder))?;
    labels.finish()
}

fn packed(label: Option<TokenLabel>) -> u32 {
    label.map_or(NO_LABEL, |label| label.number << 1 | u32::from(label.continues))
}

fn unpacked(packed: u32) -> Option<TokenLabel> {
    let label = TokenLabel { number: packed >> 1, continues: packed & 1 == 1 };
    (packed != NO_LABEL).then_some(label)
}
