//! How rows are padded to one length.

use crate::tokenize::PaddingSide;

/// The settings of padding, by the tokenizer and the job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Padding {
    /// The token that fills rows.
    pub token_id: u32,
    /// The segment of padding.
    pub token_type_id: u8,
    /// The side of rows that padding is on.
    pub side: PaddingSide,
    /// The length that rows are padded to.
    pub to: PadTo,
    /// True if tokens attend to padding, as with a tokenizer that gives no `attention_mask`.
    pub is_attended: bool,
}

/// The length that transformers pads a global batch to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PadTo {
    /// The length of its longest row, rounded up to a multiple.
    Longest {
        /// The number that lengths are multiples of; 1 rounds nothing.
        multiple_of: u32,
    },
    /// One length for all batches (`pad_to_max_length`).
    MaxLength,
}

impl Padding {
    /// Padding behind the rows, up to the longest one, that no token attends to.
    pub fn behind(token_id: u32) -> Self {
        let to = PadTo::Longest { multiple_of: 1 };
        Self { token_id, token_type_id: 0, side: PaddingSide::Right, to, is_attended: false }
    }

    /// The length that transformers pads rows to of which the longest has `longest` tokens; at
    /// most `positions`.
    pub(crate) fn padded_length(&self, longest: u32, positions: u32) -> u32 {
        match self.to {
            PadTo::Longest { multiple_of } => longest.next_multiple_of(multiple_of.max(1)),
            PadTo::MaxLength => positions,
        }
        .min(positions)
    }

    /// The first position of a row of `length` tokens.
    pub(crate) fn first_position(&self, length: usize, padded_length: usize) -> usize {
        match self.side {
            PaddingSide::Left => padded_length - length,
            PaddingSide::Right => 0,
        }
    }
}
