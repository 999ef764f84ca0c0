//! The weight of each row in losses and metrics. A batch's empty slots weigh 0, and so do their
//! tokens.

use traind_xla::{DType, Shape, Tensor};

use crate::error::Result;
use crate::model::{Batch, InputDim, InputSpec, InputValues, LossSum};

const NAME: &str = "sample_weights";

pub(super) fn sample_weights_input() -> InputSpec {
    InputSpec::optional(NAME, DType::F32, &[InputDim::Rows]).of_values(InputValues::NotNegative)
}

/// The weights of the batch's rows, one each where it has none, f32[B].
pub(super) fn sample_weights(batch: &Batch) -> Result<Tensor> {
    if let Some(weights) = batch.optional(NAME) {
        return Ok(weights.clone());
    }
    let rows = batch.any_row_input()?;
    let count = rows.dims().first().copied().unwrap_or_default();
    Ok(rows.trace().full(1.0, Shape::new(DType::F32, [count]))?)
}

/// Sums `losses` f32[N], each times its weight.
pub(super) fn weighted(losses: &Tensor, weights: &Tensor) -> Result<LossSum> {
    Ok(LossSum { loss_sum: losses.mul(weights)?.sum(&[0])?, weight_sum: weights.sum(&[0])? })
}
