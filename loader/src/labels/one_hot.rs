//! Lists of labels that are one number a class: `[0.0, 1.0, 1.0]`, 1 where the class applies. Only
//! the whole column distinguishes them from lists of class numbers.

use serde::Serialize;

use super::raw::RawLabel;
use crate::error::LabelProblem;

/// The meaning of a list of labels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub enum LabelFormat {
    /// The classes that apply.
    Classes,
    /// A 0 or 1 for each class: 1 if it applies.
    OneHot,
}

/// The labels of rows that each have a list of them, by their numbers.
#[derive(Default)]
pub(crate) struct LabelLists {
    /// The numbers of all rows, end to end.
    numbers: Vec<u32>,
    ends: Vec<usize>,
    /// True if a list has floats or booleans, which cannot number classes.
    has_flags: bool,
}

impl LabelLists {
    pub(crate) fn push(&mut self, numbers: &[u32], are_flags: bool) {
        self.numbers.extend(numbers);
        self.ends.push(self.numbers.len());
        self.has_flags |= are_flags;
    }

    pub(crate) fn rows(&self) -> impl Iterator<Item = &[u32]> + Clone {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts.zip(&self.ends).map(|(start, &end)| &self.numbers[start..end])
    }

    /// The format that the lists have, where there are `num_labels` classes if that is known. None
    /// where they may have either.
    pub(super) fn format(
        &self,
        labels: &[RawLabel],
        num_labels: Option<u32>,
    ) -> Option<LabelFormat> {
        if self.has_flags {
            return Some(LabelFormat::OneHot);
        }
        let is_flag = |number: &u32| flag(&labels[*number as usize]).is_some();
        let width = num_labels.map(|count| count as usize).or_else(|| self.common_length());
        let may_be_flags = width.is_some_and(|width| {
            self.rows().all(|row| row.len() == width && row.iter().all(is_flag))
        });
        match (may_be_flags, self.rows().any(has_duplicates)) {
            (false, _) => Some(LabelFormat::Classes),
            (true, true) => Some(LabelFormat::OneHot),
            (true, false) => None,
        }
    }

    /// The length of every list, where it is the same and a list of one is out of the question.
    pub(super) fn common_length(&self) -> Option<usize> {
        let length = self.rows().next()?.len();
        (length > 1 && self.rows().all(|row| row.len() == length)).then_some(length)
    }

    /// The length of the first list.
    pub(super) fn first_length(&self) -> usize {
        self.rows().next().map_or(0, <[u32]>::len)
    }
}

/// The classes that apply to a row of `classes` flags.
pub(super) fn classes_of(
    row: &[u32],
    labels: &[RawLabel],
    classes: usize,
) -> Result<Vec<i32>, LabelProblem> {
    if row.len() != classes {
        return Err(LabelProblem::NotOneEach { found: row.len(), num_labels: classes });
    }
    let mut applies = Vec::new();
    for (class, number) in (0..).zip(row) {
        let label = &labels[*number as usize];
        match flag(label) {
            Some(true) => applies.push(class),
            Some(false) => {}
            None => return Err(LabelProblem::NotAFlag { found: label.to_string() }),
        }
    }
    Ok(applies)
}

fn flag(label: &RawLabel) -> Option<bool> {
    match label {
        RawLabel::Integer(0) => Some(false),
        RawLabel::Integer(1) => Some(true),
        _ => None,
    }
}

fn has_duplicates(row: &[u32]) -> bool {
    row.iter().enumerate().any(|(place, number)| row[..place].contains(number))
}
