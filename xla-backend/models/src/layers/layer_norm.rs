//! `torch.nn.LayerNorm` over the last axis.

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Init, ParameterPath, Role};

#[derive(Clone, Debug)]
pub struct LayerNorm {
    weight: String,
    bias: String,
    epsilon: f64,
}

impl LayerNorm {
    pub fn new(path: ParameterPath<'_>, width: usize, epsilon: f64) -> LayerNorm {
        let (mut path, width) = (path.beside_tokens(), [width.into()]);
        let weight = path.declare("weight", Role::Norm, &width, Init::Ones);
        let bias = path.declare("bias", Role::Norm, &width, Init::Zeros);
        LayerNorm { weight, bias, epsilon }
    }

    /// [..., width] to [..., width]: normalized over the last axis, scaled and shifted.
    pub fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        Ok(x.layer_norm(&cx.parameter(&self.weight)?, &cx.parameter(&self.bias)?, self.epsilon)?)
    }
}
