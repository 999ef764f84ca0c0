//! The layers that stand before the linear one of a head: a dense layer, an activation and, in some
//! families, a norm.

use traind_xla::{DType, Tensor};

use crate::error::Result;
use crate::flops;
use crate::layers::{Activation, LayerNorm, Linear};
use crate::model::Forward;

#[derive(Debug)]
pub(crate) struct Transform {
    pub dense: Linear,
    pub activation: Activation,
    pub norm: Option<LayerNorm>,
    /// The widths of its input and its result.
    pub widths: [usize; 2],
}

impl Transform {
    /// [N, I] to [N, O].
    pub(crate) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let x = self.activation.forward(&self.dense.forward(cx, x)?)?;
        match &self.norm {
            Some(norm) => norm.forward(cx, &x.convert(DType::F32)?),
            None => Ok(x),
        }
    }

    /// Applies the transform where a family has one; returns `x` itself where it has none.
    pub(super) fn forward_optional(
        transform: Option<&Transform>,
        cx: &Forward<'_>,
        x: &Tensor,
    ) -> Result<Tensor> {
        transform.map_or_else(|| Ok(x.clone()), |transform| transform.forward(cx, x))
    }

    /// Operations of one token.
    pub(crate) fn forward_flops(&self) -> f64 {
        flops::dot(self.widths[0] as f64, self.widths[1] as f64)
    }
}
