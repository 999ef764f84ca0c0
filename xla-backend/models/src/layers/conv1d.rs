//! Transformers' `Conv1D`: a linear layer that stores its weight transposed.

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath, Role};
use crate::tuning::{Applied, LayerParts};

/// A linear layer whose weight is [in, out], as transformers' `Conv1D` of GPT-2.
#[derive(Clone, Debug)]
pub(crate) struct Conv1d {
    weight: String,
    bias: String,
    /// Whether cores can have parts of the inputs, and of the outputs.
    divides: [bool; 2],
}

impl Conv1d {
    /// `weight` [inputs, outputs], normal with `std`, and `bias` [outputs], zero.
    pub(crate) fn new(
        mut path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
        std: f64,
    ) -> Conv1d {
        let (inputs, outputs) = (inputs.into(), outputs.into());
        let init = Init::Normal { std };
        let weight = path.declare("weight", Role::TransposedProjection, &[inputs, outputs], init);
        // Added to the sum of what the cores computed.
        let mut path = if inputs.is_divisible() { path.beside_tokens() } else { path };
        let bias = path.bias("bias", outputs);
        Conv1d { weight, bias, divides: [inputs, outputs].map(|it| it.is_divisible()) }
    }

    /// [N, inputs] to [N, outputs], in the type of products.
    pub(crate) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let (x, bias) = (&x.convert(cx.compute_dtype())?, cx.factor(&self.bias)?);
        let (weight, parts) = (&cx.factor(&self.weight)?, self.parts(cx));
        let adapted = |y, bias| cx.adapted(Applied { weight: &self.weight, x, bias, y, parts });
        match parts {
            LayerParts::Inputs => {
                Ok(cx.fan_in(&adapted(cx.matmul(x, weight, None)?, None)?)?.add(&bias)?)
            }
            _ => adapted(cx.matmul(x, weight, Some(&bias))?, Some(&bias)),
        }
    }

    fn parts(&self, cx: &Forward<'_>) -> LayerParts {
        match (cx.core_count() > 1, self.divides) {
            (true, [true, _]) => LayerParts::Inputs,
            (true, [false, true]) => LayerParts::Outputs { copies: None },
            _ => LayerParts::Whole,
        }
    }
}
