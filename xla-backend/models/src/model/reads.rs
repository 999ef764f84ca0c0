//! Which tokens a head reads: the states that programs compute for it, and the count of these by which operations are
//! estimated, follow from the same value.

use traind_xla::Tensor;

use super::{Batch, Lengths, ReadTokens};
use crate::error::Result;

/// The tokens whose states a head reads.
pub(crate) enum Reads<'a> {
    All,
    /// The first of each row.
    First,
    /// The one of each row at these positions of a batch, s32[B].
    OneOfRow(Positions<'a>),
    /// Those with a label, where a batch says which they are, else all.
    Labelled,
    /// Those before a label, where a batch says which they are, else all but padding, where its rows are packed, else
    /// all.
    BeforeLabels,
}

type Positions<'a> = Box<dyn Fn(&Batch) -> Result<Tensor> + 'a>;

impl<'a> Reads<'a> {
    pub(crate) fn one_of_row(positions: impl Fn(&Batch) -> Result<Tensor> + 'a) -> Reads<'a> {
        Reads::OneOfRow(Box::new(positions))
    }

    /// The tokens among the rows `dims` [B, S] of a batch; none where all are read.
    pub(super) fn tokens(&self, batch: &Batch, dims: [usize; 2]) -> Result<Option<ReadTokens>> {
        match self {
            Reads::All => Ok(None),
            Reads::First => ReadTokens::first(batch, dims).map(Some),
            Reads::OneOfRow(positions) => ReadTokens::at(&positions(batch)?, dims).map(Some),
            Reads::Labelled => ReadTokens::labelled(batch),
            Reads::BeforeLabels => ReadTokens::predicting_next(batch),
        }
    }

    /// The number of tokens in a row; none where all are read, or those before labels: all are counted for these.
    pub(crate) fn positions(&self, lengths: Lengths) -> Option<usize> {
        match self {
            Reads::All | Reads::BeforeLabels => None,
            Reads::First | Reads::OneOfRow(_) => Some(1),
            Reads::Labelled => Some(lengths.predicted_positions).filter(|&predicted| predicted > 0),
        }
    }
    /// Whether padding before a row's tokens is read: at the first place, or at the one before the first label.
    pub(super) fn reads_padding_ahead(&self) -> bool {
        match self {
            Reads::First | Reads::BeforeLabels => true,
            Reads::All | Reads::OneOfRow(_) | Reads::Labelled => false,
        }
    }
}
