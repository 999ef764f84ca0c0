//! The targets of a set.

use serde::{Deserialize, Serialize};

/// The targets of all rows, in data set order.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    None,
    /// A class a row.
    Class(Vec<i32>),
    /// `width` numbers a row.
    Numbers {
        width: usize,
        values: Vec<f32>,
    },
    /// 1 for each class that applies, 0 for the others: `classes` a row.
    MultiLabel {
        classes: usize,
        values: Vec<f32>,
    },
    /// A class a token, as many as there are tokens; [`crate::IGNORED_LABEL`] where it has none.
    Token(Vec<i32>),
    /// The first and last token of an answer, a pair a row.
    Span {
        start_positions: Vec<i32>,
        end_positions: Vec<i32>,
    },
    /// The tokens themselves.
    InputIds,
}

/// Which arrays hold the targets of a stored set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum LabelArrays {
    #[default]
    None,
    Class,
    Numbers {
        width: usize,
    },
    MultiLabel {
        classes: usize,
    },
    Token,
    Span,
    InputIds,
}

impl Labels {
    /// Whether there are as many targets as `rows` with `tokens` tokens need.
    pub(super) fn fit(&self, rows: usize, tokens: usize) -> bool {
        match self {
            Self::None | Self::InputIds => true,
            Self::Class(ids) => ids.len() == rows,
            Self::Numbers { width: each, values } | Self::MultiLabel { classes: each, values } => {
                Some(values.len()) == each.checked_mul(rows)
            }
            Self::Token(ids) => ids.len() == tokens,
            Self::Span { start_positions, end_positions } => {
                start_positions.len() == rows && end_positions.len() == rows
            }
        }
    }

    /// What says how they are stored.
    pub(super) fn arrays(&self) -> LabelArrays {
        match self {
            Self::None => LabelArrays::None,
            Self::Class(_) => LabelArrays::Class,
            Self::Numbers { width, .. } => LabelArrays::Numbers { width: *width },
            Self::MultiLabel { classes, .. } => LabelArrays::MultiLabel { classes: *classes },
            Self::Token(_) => LabelArrays::Token,
            Self::Span { .. } => LabelArrays::Span,
            Self::InputIds => LabelArrays::InputIds,
        }
    }
}
