//! The targets of a set.

use serde::{Deserialize, Serialize};

/// The targets of all rows, in data set order. A few bytes a row: those of tokens are on disk.
#[derive(Clone, Debug, PartialEq)]
pub enum Labels {
    /// No labels, as in rows to predict.
    None,
    /// A class a row.
    Class(Vec<i32>),
    /// `width` numbers a row.
    Numbers {
        /// The numbers of a row.
        width: usize,
        /// The numbers of all rows, one row behind the other.
        values: Vec<f32>,
    },
    /// Any number of classes a row.
    MultiLabel(MultiLabels),
    /// A class a token, see [`crate::TokenizedSet::token_labels`].
    Token,
    /// The first and last token of an answer, a pair a row.
    Span {
        /// The first token of each answer.
        start_positions: Vec<i32>,
        /// The last token of each answer.
        end_positions: Vec<i32>,
    },
    /// The tokens themselves.
    InputIds,
}

/// The classes that apply to each row.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MultiLabels {
    /// The number of classes.
    pub classes: usize,
    /// The classes of all rows, end to end.
    pub(crate) ids: Vec<i32>,
    /// The end of each row's classes.
    pub(crate) ends: Vec<u64>,
}

impl MultiLabels {
    /// Makes labels of the classes that apply to each row.
    pub(crate) fn of_rows(classes: u32, rows: Vec<Vec<i32>>) -> Self {
        let ends = rows.iter().scan(0, |end, row| {
            *end += row.len() as u64;
            Some(*end)
        });
        Self { classes: classes as usize, ends: ends.collect(), ids: rows.concat() }
    }

    /// The classes that apply to a row.
    pub fn of(&self, row: usize) -> &[i32] {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.ids[start as usize..self.ends[row] as usize]
    }

    /// 1 for each class that applies to a row, 0 for the others.
    pub fn hot(&self, row: usize) -> Vec<f32> {
        let mut hot = vec![0.0; self.classes];
        self.of(row).iter().for_each(|&class| hot[class as usize] = 1.0);
        hot
    }

    /// The flags of [`hot`](Self::hot) for all rows, end to end.
    pub fn all_hot(&self) -> Vec<f32> {
        (0..self.ends.len()).flat_map(|row| self.hot(row)).collect()
    }

    fn fit(&self, rows: usize) -> bool {
        let classes = 0..self.classes as i32;
        self.ends.len() == rows
            && self.ends.is_sorted()
            && self.ends.last().copied().unwrap_or(0) == self.ids.len() as u64
            && self.ids.iter().all(|id| classes.contains(id))
    }

    fn select(&self, rows: &[usize]) -> Self {
        let mut selected = Self { classes: self.classes, ..Self::default() };
        for &row in rows {
            selected.ids.extend(self.of(row));
            selected.ends.push(selected.ids.len() as u64);
        }
        selected
    }
}

/// The arrays that hold the targets of a stored set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum LabelArrays {
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
    /// Returns true if there are as many targets as `rows` rows need.
    pub(crate) fn fit(&self, rows: usize) -> bool {
        match self {
            Self::None | Self::InputIds | Self::Token => true,
            Self::Class(ids) => ids.len() == rows,
            Self::Numbers { width, values } => Some(values.len()) == width.checked_mul(rows),
            Self::MultiLabel(classes) => classes.fit(rows),
            Self::Span { start_positions, end_positions } => {
                start_positions.len() == rows && end_positions.len() == rows
            }
        }
    }

    /// The targets of some rows.
    pub(crate) fn select(&self, rows: &[usize]) -> Self {
        match self {
            Self::None => Self::None,
            Self::InputIds => Self::InputIds,
            Self::Token => Self::Token,
            Self::Class(ids) => Self::Class(of_rows(ids, rows)),
            Self::Numbers { width, values } => {
                let of_row = |&row: &usize| &values[row * width..(row + 1) * width];
                let values = rows.iter().flat_map(of_row).copied().collect();
                Self::Numbers { width: *width, values }
            }
            Self::MultiLabel(classes) => Self::MultiLabel(classes.select(rows)),
            Self::Span { start_positions, end_positions } => Self::Span {
                start_positions: of_rows(start_positions, rows),
                end_positions: of_rows(end_positions, rows),
            },
        }
    }

    /// The arrays that they are stored in.
    pub(crate) fn arrays(&self) -> LabelArrays {
        match self {
            Self::None => LabelArrays::None,
            Self::Class(_) => LabelArrays::Class,
            Self::Numbers { width, .. } => LabelArrays::Numbers { width: *width },
            Self::MultiLabel(labels) => LabelArrays::MultiLabel { classes: labels.classes },
            Self::Token => LabelArrays::Token,
            Self::Span { .. } => LabelArrays::Span,
            Self::InputIds => LabelArrays::InputIds,
        }
    }
}

/// The values of some rows, one a row.
pub(crate) fn of_rows<T: Copy>(values: &[T], rows: &[usize]) -> Vec<T> {
    rows.iter().map(|&row| values[row]).collect()
}
