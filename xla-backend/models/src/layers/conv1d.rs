//! Transformers' `Conv1D`: a linear layer that stores its weight transposed.

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath, Role};
use crate::tuning::Applied;

#[derive(Clone, Debug)]
pub struct Conv1d {
    weight: String,
    bias: String,
    /// Whether cores can have parts of the inputs.
    divides_inputs: bool,
}

impl Conv1d {
    /// `weight` [inputs, outputs], normal with `std`, and `bias` [outputs], zero.
    pub fn new(
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
        Conv1d { weight, bias, divides_inputs: inputs.is_divisible() }
    }

    /// [N, inputs] to [N, outputs], in the type of products.
    pub fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let (x, bias) = (&x.convert(cx.compute_dtype())?, cx.factor(&self.bias)?);
        let mut products = x.matmul(&cx.factor(&self.weight)?)?;
        if self.divides_inputs {
            products = cx.fan_in(&products)?;
        }
        let y = products.add(&bias)?;
        cx.adapted(Applied { weight: &self.weight, x, bias: Some(&bias), y })
    }
}
