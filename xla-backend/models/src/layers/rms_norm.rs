//! Root-mean-square normalization over the last axis (`LlamaRMSNorm`).

use traind_xla::{DType, Tensor};

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath, Partition, Role};

/// Root-mean-square normalization over the last axis, with a scale.
#[derive(Clone, Debug)]
pub(crate) struct RmsNorm {
    weight: String,
    epsilon: f64,
    scale: Scale,
}

/// How the weight of a norm scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// Multiplies by the weight, which starts as one.
    Weight,
    /// Multiplies by one more than the weight, which starts as zero (`GemmaRMSNorm`).
    OnePlusWeight,
}

impl RmsNorm {
    /// Declares a scale of `width` numbers. `epsilon` keeps the divisor from zero.
    pub(crate) fn new(
        path: ParameterPath<'_>,
        width: usize,
        epsilon: f64,
        scale: Scale,
    ) -> RmsNorm {
        RmsNorm::declare(path.beside_tokens(), width, epsilon, scale)
    }

    /// A norm of the heads of attention, of which each core may have some alone.
    pub(crate) fn of_heads(
        path: ParameterPath<'_>,
        width: usize,
        epsilon: f64,
        scale: Scale,
    ) -> RmsNorm {
        RmsNorm::declare(path.beside_parts(), width, epsilon, scale)
    }

    fn declare(mut path: ParameterPath<'_>, width: usize, epsilon: f64, scale: Scale) -> RmsNorm {
        let init = match scale {
            Scale::Weight => Init::Ones,
            Scale::OnePlusWeight => Init::Zeros,
        };
        let weight = path.declare("weight", Role::Norm, &[width.into()], init);
        RmsNorm { weight, epsilon, scale }
    }

    /// [..., H] to [..., H].
    pub(crate) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let weight = cx.parameter(&self.weight)?;
        let scale = match self.scale {
            Scale::Weight => weight,
            Scale::OnePlusWeight => weight.add_scalar(1.0)?,
        };
        Ok(x.rms_norm(&scale, self.epsilon)?)
    }
}

/// A norm over features of which each core that shares the layer may have a part.
#[derive(Clone, Debug)]
pub(crate) struct DividedRmsNorm {
    weight: String,
    epsilon: f64,
    /// The heads of keys, of which several cores may have the same.
    shared_heads: Option<usize>,
}

impl DividedRmsNorm {
    /// Declares a scale of `width` numbers, of which each of the cores that share the layer has a part.
    pub(crate) fn new(
        mut path: ParameterPath<'_>,
        width: Dimension,
        epsilon: f64,
    ) -> DividedRmsNorm {
        let weight = path.declare("weight", Role::Norm, &[width], Init::Ones);
        let shared_heads = match width.partition {
            Partition::SharedHeads { num_heads } => Some(num_heads),
            _ => None,
        };
        DividedRmsNorm { weight, epsilon, shared_heads }
    }

    /// f32[N, W], where W are this core's features: the mean of their squares is that of all cores.
    pub(crate) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let weight = cx.parameter(&self.weight)?;
        let weight = match self.shared_heads {
            Some(heads) => cx.fan_out_copies(weight, heads)?,
            None => weight,
        };
        if cx.core_count() == 1 {
            return Ok(x.rms_norm(&weight, self.epsilon)?);
        }
        let x = x.convert(DType::F32)?;
        let width = x.dims()[1] * cx.core_count();
        let squares = cx.share_sum(&x.mul(&x)?.sum_keep(&[1])?)?;
        let factor = squares.mul_scalar(1.0 / width as f64)?.add_scalar(self.epsilon)?.rsqrt()?;
        Ok(x.mul(&factor)?.mul(&weight)?)
    }
}
