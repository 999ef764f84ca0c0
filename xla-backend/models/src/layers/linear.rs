//! `torch.nn.Linear`: `x W^T + b`.
//!
//! Where cores share the layer, outputs that can be divided stay with the core that computes them,
//! and inputs that can be divided give each core a part of the sum.

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath, Partition, Role};
use crate::tuning::{Applied, LayerParts};

/// A linear layer whose weight is [out, in]: `torch.nn.Linear`.
#[derive(Clone, Debug)]
pub(crate) struct Linear {
    weight: String,
    bias: Option<String>,
    /// Whether cores can have parts of the inputs.
    divides_inputs: bool,
    divides_outputs: bool,
    /// The number of heads in the outputs of which several cores may have the same.
    shared_heads: Option<usize>,
}

impl Linear {
    /// `weight` [outputs, inputs], drawn by `init` or normal with a deviation, and `bias` [outputs], zero.
    pub(crate) fn new(
        mut path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
        init: impl Into<Init>,
    ) -> Linear {
        let outputs = outputs.into();
        let layer = Linear::declare(&mut path, inputs.into(), outputs, init.into());
        // Added to the sum of what the cores computed.
        let mut path = if layer.divides_inputs { path.beside_tokens() } else { path };
        layer.with_bias(&mut path, "bias", outputs)
    }

    /// A layer without `bias`.
    pub(crate) fn without_bias(
        mut path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
        init: impl Into<Init>,
    ) -> Linear {
        Linear::declare(&mut path, inputs.into(), outputs.into(), init.into())
    }

    /// A layer with or without bias.
    pub(crate) fn with_bias_if(
        has_bias: bool,
        path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
        init: impl Into<Init>,
    ) -> Linear {
        match has_bias {
            true => Linear::new(path, inputs, outputs, init),
            false => Linear::without_bias(path, inputs, outputs, init),
        }
    }

    /// A layer that begins as PyTorch's do: uniform up to the inverse root of the inputs, its bias too.
    pub(crate) fn uniform(
        has_bias: bool,
        mut path: ParameterPath<'_>,
        inputs: usize,
        outputs: usize,
    ) -> Linear {
        let init = Init::Uniform { bound: (inputs as f64).powf(-0.5) };
        let layer = Linear::declare(&mut path, inputs.into(), outputs.into(), init);
        let bias = has_bias.then(|| path.declare("bias", Role::Bias, &[outputs.into()], init));
        Linear { bias, ..layer }
    }

    /// A layer without bias whose weight is another's, called `weight` in full, a row a token of the
    /// vocabulary.
    pub(crate) fn sharing(weight: &str) -> Linear {
        Linear {
            weight: weight.to_owned(),
            bias: None,
            divides_inputs: false,
            divides_outputs: true,
            shared_heads: None,
        }
    }

    /// Adds a bias called `name` below `path`.
    pub(crate) fn with_bias(
        self,
        path: &mut ParameterPath<'_>,
        name: &str,
        outputs: impl Into<Dimension>,
    ) -> Linear {
        Linear { bias: Some(path.bias(name, outputs.into())), ..self }
    }

    fn declare(
        path: &mut ParameterPath<'_>,
        inputs: Dimension,
        outputs: Dimension,
        init: Init,
    ) -> Linear {
        let weight = path.declare("weight", Role::Projection, &[outputs, inputs], init);
        let shared_heads = match outputs.partition {
            Partition::SharedHeads { num_heads } => Some(num_heads),
            _ => None,
        };
        Linear {
            weight,
            bias: None,
            divides_inputs: inputs.is_divisible(),
            divides_outputs: outputs.is_divisible(),
            shared_heads,
        }
    }

    /// [..., inputs] to [..., outputs], in the type of products.
    pub(crate) fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let factor = |name| match self.shared_heads {
            Some(heads) => cx.fan_out_copies(cx.factor(name)?, heads),
            None => cx.factor(name),
        };
        let bias = self.bias.as_deref().map(factor).transpose()?;
        let (x, weight) = (&x.convert(cx.compute_dtype())?, factor(&self.weight)?);
        let parts = self.parts(cx);
        if parts != LayerParts::Inputs {
            let (y, bias) = (cx.linear(x, &weight, bias.as_ref())?, bias.as_ref());
            return cx.adapted(Applied { weight: &self.weight, x, bias, y, parts });
        }
        let y = cx.linear(x, &weight, None)?;
        let y = cx.adapted(Applied { weight: &self.weight, x, bias: None, y, parts })?;
        let sum = cx.fan_in(&y)?;
        bias.map_or_else(|| Ok(sum.clone()), |bias| Ok(sum.add(&bias)?))
    }

    fn parts(&self, cx: &Forward<'_>) -> LayerParts {
        match (cx.core_count() > 1, self.divides_inputs, self.divides_outputs) {
            (true, true, _) => LayerParts::Inputs,
            (true, false, true) => LayerParts::Outputs { copies: self.shared_heads },
            _ => LayerParts::Whole,
        }
    }
}
