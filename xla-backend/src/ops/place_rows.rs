//! Moves rows to other places, as between padded and packed tokens.
//!
//! N rows, M places, H elements of a row.

use super::composite::Composite;
use super::{Backward, Problem, ResultStorage, operands};
use crate::error::Result;
use crate::graph::{DType, Shape};
use crate::tensor::Tensor;

/// x [N, H], s32[M] the row that each place gets, and s32[N] the place that each row gets: the other direction, for
/// the gradient.
#[derive(Debug)]
struct PlaceRows;

impl Tensor {
    /// The rows of `self` [N, H] in M places: place i has row `row_of_place[i]`, and zeros where there is no such
    /// row. `place_of_row`, `[N]`, is its inverse. As no row stands in two places, the gradient moves
    /// rows back instead of adding them up.
    pub fn place_rows(&self, row_of_place: &Tensor, place_of_row: &Tensor) -> Result<Tensor> {
        self.apply(PlaceRows, &[row_of_place, place_of_row])
    }
}

impl Composite for PlaceRows {
    fn name(&self) -> &'static str {
        "place_rows"
    }

    fn storage(&self) -> ResultStorage {
        ResultStorage::Written
    }

    fn infer(&self, inputs: &[Shape]) -> Result<Shape, Problem> {
        let [x, row_of_place, place_of_row] = operands(inputs)?;
        let (&[rows, width], &[places]) = (&x.dims[..], &row_of_place.dims[..]) else {
            return Err("takes rows [N, H], and the row of each place [M]".into());
        };
        if rows == 0 || place_of_row.dims[..] != [rows] {
            return Err("takes rows, and the place of each of them".into());
        }
        if row_of_place.dtype != DType::S32 || place_of_row.dtype != DType::S32 {
            return Err("takes numbers in s32".into());
        }
        Ok(x.with_dims([places, width]))
    }

    fn expand(&self, inputs: &[Tensor]) -> Result<Tensor> {
        let (x, row_of_place) = (&inputs[0], &inputs[1]);
        let placed = x.take(row_of_place)?;
        let is_row = row_of_place.lt_scalar(x.dims()[0] as f64)?.unsqueeze(1)?;
        let zeros = x.trace().full(0.0, placed.shape().clone())?;
        is_row.broadcast_to(placed.dims())?.select(&placed, &zeros)
    }

    fn gradient(&self, at: &Backward<'_>) -> Result<Vec<Option<Tensor>>> {
        let moved_back = at.cotangent.apply(PlaceRows, &[&at.inputs[2], &at.inputs[1]])?;
        Ok(vec![Some(moved_back), None, None])
    }
}
