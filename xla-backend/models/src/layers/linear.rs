//! `torch.nn.Linear`: `x W^T + b`.

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Dimension, Init, ParameterPath, Role};

#[derive(Clone, Debug)]
pub struct Linear {
    weight: String,
    bias: Option<String>,
}

impl Linear {
    /// `weight` [outputs, inputs], normal with `std`, and `bias` [outputs], zero.
    pub fn new(
        mut path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
        std: f64,
    ) -> Linear {
        let (inputs, outputs) = (inputs.into(), outputs.into());
        let weight = declare_weight(&mut path, inputs, outputs, std);
        Linear { weight, bias: Some(path.bias("bias", outputs)) }
    }

    /// A layer without `bias`.
    pub fn without_bias(
        mut path: ParameterPath<'_>,
        inputs: impl Into<Dimension>,
        outputs: impl Into<Dimension>,
        std: f64,
    ) -> Linear {
        Linear { weight: declare_weight(&mut path, inputs.into(), outputs.into(), std), bias: None }
    }

    /// A layer without bias whose weight is another's, called `weight` in full.
    pub fn sharing(weight: &str) -> Linear {
        Linear { weight: weight.to_owned(), bias: None }
    }

    /// Adds a bias called `name` below `path`.
    pub fn with_bias(
        self,
        path: &mut ParameterPath<'_>,
        name: &str,
        outputs: impl Into<Dimension>,
    ) -> Linear {
        Linear { bias: Some(path.bias(name, outputs.into())), ..self }
    }

    /// [..., inputs] to [..., outputs], in the type of products.
    pub fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|name| cx.factor(name)).transpose()?;
        let x = x.convert(cx.compute_dtype())?;
        Ok(x.linear(&cx.factor(&self.weight)?, bias.as_ref())?)
    }
}

fn declare_weight(
    path: &mut ParameterPath<'_>,
    inputs: Dimension,
    outputs: Dimension,
    std: f64,
) -> String {
    path.declare("weight", Role::Projection, &[outputs, inputs], Init::Normal { std })
}
