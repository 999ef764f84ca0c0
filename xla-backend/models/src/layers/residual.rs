//! The end of each part of BERT's layers.

use traind_xla::Tensor;

use super::{LayerNorm, Linear};
use crate::error::Result;
use crate::model::Forward;

/// `norm(dropout(dense(x)) + residual)`.
#[derive(Debug)]
pub(crate) struct Residual {
    pub dense: Linear,
    pub norm: LayerNorm,
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
        self.norm.forward_sum(cx, &self.dense.forward(cx, x)?, residual, self.dropout)
    }
}
