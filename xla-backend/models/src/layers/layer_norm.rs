//! `torch.nn.LayerNorm` over the last axis.

use traind_xla::ops::Random;
use traind_xla::{DType, Tensor};

use super::dropout;
use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Init, ParameterPath, Role};

/// Layer normalization over the last axis, with scale and shift: `torch.nn.LayerNorm`.
#[derive(Clone, Debug)]
pub(crate) struct LayerNorm {
    weight: String,
    bias: Option<String>,
    epsilon: f64,
}

impl LayerNorm {
    /// Declares scale and shift of `width` numbers. `epsilon` keeps the divisor from zero.
    pub(crate) fn new(path: ParameterPath<'_>, width: usize, epsilon: f64) -> LayerNorm {
        LayerNorm::with_bias_if(true, path, width, epsilon)
    }

    /// A norm with or without a shift.
    pub(crate) fn with_bias_if(
        has_bias: bool,
        path: ParameterPath<'_>,
        width: usize,
        epsilon: f64,
    ) -> LayerNorm {
        LayerNorm::of_all(has_bias, path.beside_tokens(), width, epsilon)
    }

    /// A norm of states that all cores that share layers have, such as those of a head.
    pub(crate) fn of_all(
        has_bias: bool,
        mut path: ParameterPath<'_>,
        width: usize,
        epsilon: f64,
    ) -> LayerNorm {
        let width = [width.into()];
        let weight = path.declare("weight", Role::Norm, &width, Init::Ones);
        let bias = has_bias.then(|| path.declare("bias", Role::Norm, &width, Init::Zeros));
        LayerNorm { weight, bias, epsilon }
    }

    /// [..., width] to [..., width]: normalized over the last axis, scaled and shifted.
    pub(crate) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let [weight, bias] = self.scale_and_shift(cx)?;
        Ok(x.layer_norm(&weight, &bias, self.epsilon)?)
    }

    /// f32[width] each.
    fn scale_and_shift(&self, cx: &Forward<'_>) -> Result<[Tensor; 2]> {
        let weight = cx.parameter(&self.weight)?;
        let bias = match &self.bias {
            Some(name) => cx.parameter(name)?,
            None => cx.trace.full(0.0, weight.shape().clone())?,
        };
        Ok([weight, bias])
    }

    /// `norm(residual + dropout(x))`, both [..., width], the residual in float32.
    pub(crate) fn forward_sum(
        &self,
        cx: &Forward<'_>,
        x: &Tensor,
        residual: &Tensor,
        rate: f64,
    ) -> Result<Tensor> {
        let random = cx.random_of_positions()?;
        let is_one_kernel = cx.trace.calls_kernels()
            && x.dtype() == DType::F32
            && random.as_ref().is_none_or(Random::is_from_first_place);
        if !is_one_kernel {
            let x = dropout(cx, x, rate)?;
            return self.forward(cx, &x.convert(DType::F32)?.add(residual)?);
        }
        let parameters = self.scale_and_shift(cx)?;
        let dropout = random.as_ref().map(|random| (rate, random));
        Ok(x.add_norm(residual, parameters.each_ref(), self.epsilon, dropout)?)
    }
}
