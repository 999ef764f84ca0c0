//! One row of a batch, as the arrays of a task are made of it.

use std::ops::Range;

use super::batch_terms;
use crate::labels::{IGNORED_LABEL, Labels, MultiLabels};

/// One row of a batch, read and masked.
#[derive(Clone, Debug)]
pub(crate) struct RowData<'set> {
    /// The token ids, masked if the run masks tokens.
    pub(crate) input_ids: Vec<i32>,
    /// The segment of each token; None if all are 0.
    pub(crate) token_type_ids: Option<Vec<u8>>,
    /// The targets of the tokens that masking or the data set gave them.
    pub(crate) token_targets: Option<Vec<i32>>,
    /// The sums of its core's batch over rows: of their weights, of these times their masked tokens, and of these times
    /// all of their tokens.
    pub(crate) batch_sums: [f32; 3],
    /// The weights of its answer's start and end beside that of the row.
    pub(crate) answer_weights: [f32; 2],
    /// The number from which a model may draw tokens for the row; 0 where none are masked.
    pub(crate) sampling_seed: i32,
    /// A 1 for each token that a text begins with, else a 0; None where the row is one text.
    pub(crate) text_starts: Option<Vec<u8>>,
    /// A 1 for each token that no token attends to, else a 0; None where there are none such.
    pub(crate) unattended: Option<Vec<u8>>,
    /// The targets of all rows of the set, and the row's number among them.
    pub(crate) labels: &'set Labels,
    pub(crate) row: usize,
    /// The weight of the row in losses and metrics.
    pub(crate) weight: f32,
    /// The positions of the tokens.
    pub(crate) span: Range<usize>,
    /// The position that those of its answer are counted from.
    pub(crate) answer_base: usize,
    /// The positions that tokens attend to.
    pub(crate) attended: Range<usize>,
    /// The length that transformers pads the batch to.
    pub(crate) padded_length: usize,
    /// The text to write, of a task that has one.
    pub(crate) target: Option<Target>,
    /// The vector that another model has of the text; empty where none guides the loss.
    pub(crate) vector: Vec<f32>,
    /// The pixels of the image, row by row, of a task that has one.
    pub(crate) pixels: Vec<u8>,
}

/// The target of a row that has a text to write.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// The labels, shifted right.
    pub(crate) decoder_input_ids: Vec<i32>,
    pub(crate) labels: Vec<i32>,
}

/// How the targets of a batch are padded.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TargetPadding {
    pub(crate) token_id: i32,
    /// The length that transformers pads the targets of the batch to.
    pub(crate) length: usize,
}

impl RowData<'_> {
    /// Its terms in [`Self::batch_sums`].
    pub(crate) fn terms(&self) -> [f32; 3] {
        let targets = self.token_targets.as_deref().unwrap_or_default();
        batch_terms(self.weight, targets, &self.attention())
    }

    /// The segment of each token.
    pub(crate) fn segments(&self) -> Vec<i32> {
        match &self.token_type_ids {
            Some(segments) => segments.iter().map(|&segment| i32::from(segment)).collect(),
            None => vec![0; self.input_ids.len()],
        }
    }

    /// 1 at each position that tokens attend to, 0 before them and where the data set says so.
    pub(crate) fn attention(&self) -> Vec<i32> {
        let unattended = self.unattended.as_deref().unwrap_or_default();
        let leaves_out = |at: usize| {
            let token = at.checked_sub(self.span.start);
            token.and_then(|token| unattended.get(token)).is_some_and(|flag| *flag != 0)
        };
        let attends = |at| self.attended.contains(&at) && !leaves_out(at);
        (0..self.attended.end).map(|at| i32::from(attends(at))).collect()
    }

    /// The target of each token; ignored where the tokens have none.
    pub(crate) fn targets(&self) -> Vec<i32> {
        let targets = self.token_targets.clone();
        targets.unwrap_or_else(|| vec![IGNORED_LABEL; self.input_ids.len()])
    }

    /// The place of each token in its text.
    pub(crate) fn position_ids(&self) -> Vec<i32> {
        let starts = self.text_starts.clone().unwrap_or_default();
        let mut position = -1;
        let positions = (0..self.input_ids.len()).map(|at| {
            position = if starts.get(at) == Some(&1) { 0 } else { position + 1 };
            position
        });
        positions.collect()
    }

    /// The inputs of the decoder.
    pub(crate) fn decoder_input_ids(&self) -> Vec<i32> {
        self.target.as_ref().map(|target| target.decoder_input_ids.clone()).unwrap_or_default()
    }

    /// The labels of the target's tokens.
    pub(crate) fn target_labels(&self) -> Vec<i32> {
        self.target.as_ref().map(|target| target.labels.clone()).unwrap_or_default()
    }

    /// The row's class, in a set with a class for each row.
    pub(crate) fn class(&self) -> Vec<i32> {
        match self.labels {
            Labels::Class(ids) => vec![ids[self.row]],
            _ => Vec::new(),
        }
    }

    /// The row's numbers to regress on, or a 1 for each class that applies to it and 0 for others.
    pub(crate) fn numbers(&self) -> Vec<f32> {
        match self.labels {
            Labels::Numbers { width, values } => {
                values[self.row * width..(self.row + 1) * width].to_vec()
            }
            Labels::MultiLabel(labels) => MultiLabels::hot(labels, self.row),
            _ => Vec::new(),
        }
    }

    /// The positions of the answer's first and last token, in a set of questions.
    pub(crate) fn answer(&self) -> Option<(i32, i32)> {
        let first = self.answer_base as i32;
        match self.labels {
            Labels::Span { start_positions, end_positions } => {
                let at = |positions: &[i32]| first.saturating_add(positions[self.row]);
                Some((at(start_positions), at(end_positions)))
            }
            _ => None,
        }
    }

    /// Whether the start and the end of its answer lie within the batch, as far as transformers pads it.
    pub(crate) fn answers_within(&self) -> Option<[bool; 2]> {
        let within =
            |position: i32| usize::try_from(position).is_ok_and(|it| it < self.padded_length);
        self.answer().map(|(start, end)| [start, end].map(within))
    }
}
