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
    pub fn new(path: ParameterPath<'_>, width: usize, epsilon: f64, scale: Scale) -> RmsNorm {
        RmsNorm::declare(path.beside_tokens(), width, epsilon, scale)
    }

    /// A norm of the heads of attention, of which each core may have some alone.
    pub fn of_heads(path: ParameterPath<'_>, width: usize, epsilon: f64, scale: Scale) -> RmsNorm {
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
    pub fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let weight = cx.parameter(&self.weight)?;
        let scale = match self.scale {
            Scale::Weight => weight,
            Scale::OnePlusWeight => weight.add_scalar(1.0)?,
        };
        Ok(x.rms_norm(&scale, self.epsilon)?)
    }
}
