//! The arrays that a task makes of a batch.

use super::sizes::{ArraySize, POSITIONS};
use super::{ArrayValues, BatchArray, BatchSizes, RowData};

/// An array that a task makes of each batch: its name, sizes, padding and the values of a row.
///
/// The first size is that of the rows; one of the others may be a length that rows are padded to.
#[derive(Clone, Debug)]
pub(crate) struct ArraySpec {
    name: &'static str,
    sizes: Vec<ArraySize>,
    elements: Elements,
    at_first_position: bool,
}

#[derive(Clone, Copy, Debug)]
enum Elements {
    U8(Fill<u8>),
    S32(Fill<i32>),
    F32(Fill<f32>),
}

/// How the slots of an array are filled.
#[derive(Clone, Copy, Debug)]
struct Fill<T> {
    padding: T,
    /// The first element of a slot without a row.
    empty_slot: T,
    of_row: fn(&RowData<'_>) -> Vec<T>,
}

impl ArraySpec {
    /// An array of integers.
    pub(crate) fn s32(
        name: &'static str,
        sizes: &[ArraySize],
        padding: i32,
        of_row: fn(&RowData<'_>) -> Vec<i32>,
    ) -> Self {
        let elements = Elements::S32(Fill { padding, empty_slot: padding, of_row });
        Self { name, sizes: sizes.to_vec(), elements, at_first_position: false }
    }

    /// An array of bytes.
    pub(crate) fn u8(
        name: &'static str,
        sizes: &[ArraySize],
        padding: u8,
        of_row: fn(&RowData<'_>) -> Vec<u8>,
    ) -> Self {
        let elements = Elements::U8(Fill { padding, empty_slot: padding, of_row });
        Self { name, sizes: sizes.to_vec(), elements, at_first_position: false }
    }

    /// An array of floating-point numbers.
    pub(crate) fn f32(
        name: &'static str,
        sizes: &[ArraySize],
        padding: f32,
        of_row: fn(&RowData<'_>) -> Vec<f32>,
    ) -> Self {
        let elements = Elements::F32(Fill { padding, empty_slot: padding, of_row });
        Self { name, sizes: sizes.to_vec(), elements, at_first_position: false }
    }

    /// The same array, whose values of a row begin at position 0 and not with its first token.
    pub(crate) fn at_first_position(self) -> Self {
        Self { at_first_position: true, ..self }
    }

    /// The same array of integers, with `first` as the first element of slots without a row.
    pub(crate) fn with_empty_slots(mut self, first: i32) -> Self {
        if let Elements::S32(fill) = &mut self.elements {
            fill.empty_slot = first;
        }
        self
    }

    /// Makes the array of some slots; None is a slot without a row.
    pub(crate) fn array(&self, sizes: &BatchSizes, slots: &[Option<RowData<'_>>]) -> BatchArray {
        let dims: Vec<usize> = self.sizes.iter().map(|size| size.resolve(sizes)).collect();
        let values = match &self.elements {
            Elements::U8(fill) => ArrayValues::U8(self.fill(fill, &dims, slots)),
            Elements::S32(fill) => ArrayValues::S32(self.fill(fill, &dims, slots)),
            Elements::F32(fill) => ArrayValues::F32(self.fill(fill, &dims, slots)),
        };
        BatchArray { name: self.name, dims, values }
    }

    fn fill<T: Copy>(
        &self,
        fill: &Fill<T>,
        dims: &[usize],
        slots: &[Option<RowData<'_>>],
    ) -> Vec<T> {
        let width: usize = dims[1..].iter().product();
        let mut values = vec![fill.padding; slots.len() * width];
        for (slot, row) in values.chunks_mut(width.max(1)).zip(slots) {
            let Some(row) = row else {
                slot[0] = fill.empty_slot;
                continue;
            };
            let (first, of_row) = (self.first_element(row, dims), (fill.of_row)(row));
            slot[first..first + of_row.len()].copy_from_slice(&of_row);
        }
        values
    }

    /// The element of a slot that the values of a row begin with.
    fn first_element(&self, row: &RowData<'_>, dims: &[usize]) -> usize {
        match self.sizes.get(1) {
            Some(&POSITIONS) if !self.at_first_position => {
                row.span.start * dims[2..].iter().product::<usize>()
            }
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::{BatchAxis, POSITIONS, ROWS, TARGET_POSITIONS, fixed};
    use crate::labels::{IGNORED_LABEL, Labels};

    fn row(input_ids: &[i32], first: usize) -> Option<RowData<'static>> {
        let span = first..first + input_ids.len();
        Some(RowData {
            input_ids: input_ids.to_vec(),
            token_type_ids: None,
            token_targets: None,
            batch_sums: [0.0; 3],
            answer_weights: [0.0; 2],
            sampling_seed: 0,
            text_starts: None,
            unattended: None,
            labels: &Labels::None,
            row: 0,
            weight: 1.0,
            span: span.clone(),
            attended: span,
            answer_base: 0,
            padded_length: 3,
            target: None,
            vector: Vec::new(),
            pixels: Vec::new(),
        })
    }

    #[track_caller]
    fn check(spec: &ArraySpec, dims: &[usize], expect: &[i32]) {
        let sizes = BatchSizes::of_rows(3).with(BatchAxis::Positions, 3);
        let sizes = sizes.with(BatchAxis::TargetPositions, 2);
        let array = spec.array(&sizes, &[row(&[5, 6], 0), row(&[7], 1), None]);
        assert_eq!((array.dims.as_slice(), array.values), (dims, ArrayValues::S32(expect.into())));
    }

    #[test]
    fn values_begin_at_the_first_token_and_are_padded() {
        let ids = |row: &RowData<'_>| row.input_ids.clone();
        check(
            &ArraySpec::s32("ids", &[ROWS, POSITIONS], 9, ids),
            &[3, 3],
            &[5, 6, 9, 9, 7, 9, 9, 9, 9],
        );
        check(
            &ArraySpec::s32("mask", &[ROWS, POSITIONS], 0, |row| row.attention())
                .at_first_position()
                .with_empty_slots(1),
            &[3, 3],
            &[1, 1, 0, 0, 1, 0, 1, 0, 0],
        );
        check(
            &ArraySpec::s32("targets", &[ROWS, POSITIONS], IGNORED_LABEL, |row| row.targets()),
            &[3, 3],
            &[IGNORED_LABEL; 9],
        );
    }

    #[test]
    fn sizes_are_those_of_the_batch_or_fixed() {
        let pairs = |row: &RowData<'_>| row.input_ids.iter().flat_map(|&id| [id, -id]).collect();
        check(
            &ArraySpec::s32("pairs", &[ROWS, POSITIONS, fixed(2)], 0, pairs),
            &[3, 3, 2],
            &[5, -5, 6, -6, 0, 0, 0, 0, 7, -7, 0, 0, 0, 0, 0, 0, 0, 0],
        );
        check(
            &ArraySpec::s32("decoder_input_ids", &[ROWS, TARGET_POSITIONS], 1, |_| vec![4]),
            &[3, 2],
            &[4, 1, 4, 1, 1, 1],
        );
        check(
            &ArraySpec::s32("lengths", &[ROWS], 0, |row| vec![row.span.len() as i32]),
            &[3],
            &[2, 1, 0],
        );
    }
}
