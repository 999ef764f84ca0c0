//! Tokenized rows in memory: a few flat arrays, whatever the number of rows.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::labels::LabelArrays;
use crate::tasks::STARTS_WORD;
use crate::{LabelEncoder, Labels, Location};

/// Tokenized rows in data set order.
#[derive(Clone, Debug, PartialEq)]
pub struct TokenizedSet {
    pub(super) input_ids: Vec<u32>,
    /// Where each row starts in `input_ids`, and the end of the last.
    pub(super) offsets: Vec<u64>,
    /// As long as `input_ids`; absent where all are 0.
    pub(super) token_type_ids: Option<Vec<u8>>,
    /// As long as `input_ids`; absent where nothing will be masked.
    pub(super) masking: Option<Vec<u8>>,
    /// As long as `input_ids`; absent but for questions whose answers will be looked up.
    pub(super) context_offsets: Option<Vec<[u32; 2]>>,
    /// The row of the files that each row of the set came from; absent where they are the same.
    pub(super) source_rows: Option<Vec<u32>>,
    pub(super) labels: Labels,
    pub(super) about: About,
}

/// What is known of a set besides its arrays.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct About {
    pub(super) files: Vec<FileRows>,
    pub(super) label_encoder: Option<LabelEncoder>,
    pub(super) truncated_rows: u64,
    pub(super) labels: LabelArrays,
}

/// A file and how many rows it gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRows {
    pub path: PathBuf,
    pub rows: u64,
}

impl TokenizedSet {
    /// How many rows.
    pub fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Whether there is no row, which [`super::prepare`] rules out.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Tokens of all rows, special ones included, padding not.
    pub fn tokens(&self) -> u64 {
        self.input_ids.len() as u64
    }

    /// The token ids of a row.
    pub fn input_ids(&self, row: usize) -> &[u32] {
        &self.input_ids[self.span(row)]
    }

    /// The segment of each token of a row; None where every row has but one.
    pub fn token_type_ids(&self, row: usize) -> Option<&[u8]> {
        self.token_type_ids.as_ref().map(|ids| &ids[self.span(row)])
    }

    /// The tokens of a row with which words begin, where the task told words apart.
    pub fn first_tokens_of_words(&self, row: usize) -> impl Iterator<Item = usize> {
        let parts = self.masking(row).iter().enumerate();
        parts.filter(|(_, part)| **part == STARTS_WORD).map(|(token, _)| token)
    }

    /// Each token's part in its word and so in masking, see `tasks/masked_lm.rs`.
    pub(crate) fn masking(&self, row: usize) -> &[u8] {
        self.masking.as_ref().map_or(&[], |parts| &parts[self.span(row)])
    }

    /// For each token of a window the characters of the context that it stands for, both
    /// `u32::MAX` where it is not part of the context; None where the task did not keep them.
    pub fn context_offsets(&self, row: usize) -> Option<&[[u32; 2]]> {
        self.context_offsets.as_ref().map(|offsets| &offsets[self.span(row)])
    }

    /// The largest token id, to be checked against the model's embedding.
    pub fn largest_token_id(&self) -> u32 {
        self.input_ids.iter().copied().max().unwrap_or(0)
    }

    /// The token count of every row: what the sampler needs.
    pub fn lengths(&self) -> Vec<u32> {
        self.offsets.windows(2).map(|span| (span[1] - span[0]) as u32).collect()
    }

    /// The targets.
    pub fn labels(&self) -> &Labels {
        &self.labels
    }

    /// The targets of a row's tokens, where tokens have some of their own.
    pub fn token_labels(&self, row: usize) -> Option<&[i32]> {
        match &self.labels {
            Labels::Token(ids) => Some(&ids[self.span(row)]),
            _ => None,
        }
    }

    /// How raw labels became ids; give it to the other splits.
    pub fn label_encoder(&self) -> Option<&LabelEncoder> {
        self.about.label_encoder.as_ref()
    }

    /// The files, in order, with their row counts.
    pub fn files(&self) -> &[FileRows] {
        &self.about.files
    }

    /// How many rows were cut to the tokenizer's `max_length`.
    pub fn truncated_rows(&self) -> u64 {
        self.about.truncated_rows
    }

    /// The row of all files taken together that a row of the set came from: the question of a
    /// window, the text with which a block begins.
    pub fn source_row(&self, row: usize) -> usize {
        self.source_rows.as_ref().map_or(row, |rows| rows[row] as usize)
    }

    /// The file and row that a row of the set came from.
    pub fn origin(&self, row: usize) -> Option<Location> {
        (row < self.len()).then(|| origin(&self.about.files, self.source_row(row))).flatten()
    }

    pub(super) fn span(&self, row: usize) -> std::ops::Range<usize> {
        self.offsets[row] as usize..self.offsets[row + 1] as usize
    }

    /// Whether the arrays fit together; the error says what does not.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let tokens = self.input_ids.len();
        let offsets_fit = self.offsets.first() == Some(&0)
            && self.offsets.last() == Some(&(tokens as u64))
            && self.offsets.is_sorted();
        let rows = self.offsets.len().saturating_sub(1);
        let file_rows: u64 = self.about.files.iter().map(|file| file.rows).sum();
        let origins_fit = match &self.source_rows {
            Some(origins) => {
                origins.len() == rows && origins.iter().all(|&row| u64::from(row) < file_rows)
            }
            None => file_rows == rows as u64,
        };
        let of_tokens = [
            self.token_type_ids.as_ref().map(Vec::len),
            self.masking.as_ref().map(Vec::len),
            self.context_offsets.as_ref().map(Vec::len),
        ];
        let tokens_fit = of_tokens.into_iter().flatten().all(|count| count == tokens);
        match (offsets_fit, self.labels.fit(rows, tokens), tokens_fit, origins_fit) {
            (true, true, true, true) => Ok(()),
            (false, ..) => Err("row offsets do not fit the tokens"),
            (_, false, ..) => Err("the number of labels is not the number of rows"),
            (_, _, false, _) => Err("an array of tokens has another length than the tokens"),
            (.., false) => Err("the files have another number of rows"),
        }
    }
}

/// The file and row of row `row` of all files taken together.
pub(super) fn origin(files: &[FileRows], row: usize) -> Option<Location> {
    let mut row = row as u64;
    for file in files {
        if row < file.rows {
            return Some(Location::of_row(&file.path, row));
        }
        row -= file.rows;
    }
    None
}
