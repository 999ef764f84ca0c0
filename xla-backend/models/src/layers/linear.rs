//! `torch.nn.Linear`: `x W^T + b`.

use traind_xla::Tensor;

use crate::error::Result;
use crate::model::Forward;
use crate::parameters::{Init, ParameterPath};

#[derive(Clone, Debug)]
pub struct Linear {
    weight: String,
    bias: Option<String>,
}

impl Linear {
    /// `weight` [outputs, inputs], normal with `std`, and `bias` [outputs], zero.
    pub fn new(mut path: ParameterPath<'_>, inputs: usize, outputs: usize, std: f64) -> Linear {
        let weight = path.weight("weight", &[outputs, inputs], Init::Normal { std });
        let bias = Some(path.undecayed("bias", &[outputs], Init::Zeros));
        Linear { weight, bias }
    }

    /// The same without `bias`.
    pub fn without_bias(
        mut path: ParameterPath<'_>,
        inputs: usize,
        outputs: usize,
        std: f64,
    ) -> Linear {
        let weight = path.weight("weight", &[outputs, inputs], Init::Normal { std });
        Linear { weight, bias: None }
    }

    /// A layer without bias whose weight is another's, called `weight` in full.
    pub fn sharing(weight: &str) -> Linear {
        Linear { weight: weight.to_owned(), bias: None }
    }

    /// The same with a bias called `name` below `path`.
    pub fn with_bias(self, path: &mut ParameterPath<'_>, name: &str, outputs: usize) -> Linear {
        Linear { bias: Some(path.undecayed(name, &[outputs], Init::Zeros)), ..self }
    }

    /// [..., inputs] to [..., outputs], in the type of products.
    pub fn forward(&self, cx: &Forward<'_>, x: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(|name| cx.factor(name)).transpose()?;
        let x = x.convert(cx.compute_dtype())?;
        Ok(x.linear(&cx.factor(&self.weight)?, bias.as_ref())?)
    }
}
