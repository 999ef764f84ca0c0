//! A batch as named arrays with named sizes.
//!
//! A task lists the arrays that it makes of each batch ([`ArraySpec`]), each with its element
//! type, sizes, padding and the values of a row. From there to the program's inputs nothing knows
//! an array but by its name.

mod answers;
mod packed;
mod padding;
mod row;
mod sizes;
mod spec;
mod sums;

use std::ops::Range;

pub use answers::{answer_factors, answer_weights};
pub(crate) use packed::{PredictedTarget, packed_arrays, predicted_arrays};
pub use padding::{PadTo, Padding};
pub(crate) use row::{RowData, Target, TargetPadding};
pub use sizes::{BatchAxis, BatchSizes, equal_part_rows};
pub(crate) use sizes::{POSITIONS, ROWS, TARGET_POSITIONS, fixed};
pub(crate) use spec::ArraySpec;
pub use sums::{batch_sums, batch_terms};

/// The arrays of one core in one batch.
#[derive(Clone, Debug, PartialEq)]
pub struct CoreBatch {
    /// The sizes that the arrays are padded to.
    pub sizes: BatchSizes,
    /// The inputs and targets, in the order of the task's arrays.
    pub arrays: Vec<BatchArray>,
    /// The length that transformers pads the global batch to: at most the size of
    /// [`BatchAxis::Positions`]. Positions from there on are not padding of its batch.
    pub padded_length: usize,
    /// The positions of each slot's tokens; none in an empty slot.
    pub spans: Vec<Range<usize>>,
}

impl CoreBatch {
    /// The array of a name; None if the task makes none.
    pub fn array(&self, name: &str) -> Option<&BatchArray> {
        self.arrays.iter().find(|array| array.name == name)
    }
}

/// A named array, row-major.
#[derive(Clone, Debug, PartialEq)]
pub struct BatchArray {
    /// The name of the model's input.
    pub name: &'static str,
    /// The dimensions, rows first.
    pub dims: Vec<usize>,
    /// The elements, row-major.
    pub values: ArrayValues,
}

/// The elements of an array, by their type.
#[derive(Clone, Debug, PartialEq)]
pub enum ArrayValues {
    /// Bytes, such as pixels.
    U8(Vec<u8>),
    /// Token ids, masks and classes.
    S32(Vec<i32>),
    /// Weights and numbers to regress on.
    F32(Vec<f32>),
}
