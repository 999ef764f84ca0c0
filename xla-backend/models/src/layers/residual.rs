//! Sums of the input of a part of a layer and its result.

use traind_xla::{DType, Tensor};

use super::{LayerNorm, Linear, dropout};
use crate::error::Result;
use crate::model::Forward;

/// `norm(dropout(dense(x)) + residual)`.
#[derive(Debug)]
pub(crate) struct Residual {
    pub dense: Linear,
    /// None where layers normalize before their parts.
    pub norm: Option<LayerNorm>,
    pub dropout: f64,
}

impl Residual {
    /// Adds what a part of a layer made of `residual` to it.
    pub(crate) fn forward(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        residual: &Tensor,
    ) -> Result<Tensor> {
        let x = self.dense.forward(cx, x)?;
        match &self.norm {
            Some(norm) => norm.forward_sum(cx, &x, residual, self.dropout),
            None => add_dropped(cx, residual, &x, self.dropout),
        }
    }
}

/// `residual + dropout(x)`, both [B S, H], the residual in float32.
pub(crate) fn add_dropped(
    cx: &Forward<'_>,
    residual: &Tensor,
    x: &Tensor,
    rate: f64,
) -> Result<Tensor> {
    Ok(residual.add(&dropout(cx, x, rate)?.convert(DType::F32)?)?)
}
