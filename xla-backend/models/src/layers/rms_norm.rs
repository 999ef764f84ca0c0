//! Root-mean-square normalization over the last axis (`LlamaRMSNorm`).

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Init, ParameterPath, Role};

#[derive(Clone, Debug)]
pub struct RmsNorm {
    weight: String,
    epsilon: f64,
    scale: Scale,
    /// Whether it normalizes heads, of which each core may have some alone.
    of_heads: bool,
}

/// How the weight of a norm scales.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// By the weight, which starts as one.
    Weight,
    /// By one more than the weight, which starts as zero (`GemmaRMSNorm`).
    OnePlusWeight,
}

impl RmsNorm {
    pub fn new(mut path: ParameterPath<'_>, width: usize, epsilon: f64, scale: Scale) -> RmsNorm {
        let init = match scale {
            Scale::Weight => Init::Ones,
            Scale::OnePlusWeight => Init::Zeros,
        };
        let weight = path.declare("weight", Role::Norm, &[width.into()], init);
        RmsNorm { weight, epsilon, scale, of_heads: false }
    }

    /// The same norm for the heads of attention.
    pub fn of_heads(self) -> RmsNorm {
        RmsNorm { of_heads: true, ..self }
    }

    /// [..., H] to [..., H].
    pub fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let weight = cx.parameter(&self.weight)?;
        let weight = if self.of_heads { cx.fan_out(&weight)? } else { weight };
        let scale = match self.scale {
            Scale::Weight => weight,
            Scale::OnePlusWeight => weight.add_scalar(1.0)?,
        };
        Ok(x.rms_norm(&scale, self.epsilon)?)
    }
}
