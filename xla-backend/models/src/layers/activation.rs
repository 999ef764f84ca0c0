//! Activations under transformers' names (`ACT2FN`).

use traind_xla::Tensor;
use traind_xla::ops::Gate;

use crate::config::ModelConfig;
use crate::error::Result;

/// An element-wise function between two layers, by the name in `transformers.activations`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// GELU by the error function.
    Gelu,
    /// `gelu` between -10 and 10.
    Gelu10,
    /// GELU by its approximation with tanh.
    GeluTanh,
    /// x σ(1.702 x).
    QuickGelu,
    /// x min(max(x + 3, 0), 6) / 6.
    Hardswish,
    /// Φ with mean √(1/2) and deviation √(1/(4π)).
    Laplace,
    /// x, and 0.01 x below 0.
    LeakyRelu,
    /// x.
    Linear,
    /// x tanh(log(1 + exp(x))).
    Mish,
    /// max(x, 0).
    Relu,
    /// max(x, 0)².
    Relu2,
    /// min(max(x, 0), 6).
    Relu6,
    /// 1 / (1 + exp(-x)).
    Sigmoid,
    /// x / (1 + exp(-x)).
    Silu,
    /// √(log(1 + exp(x))).
    SqrtSoftplus,
    /// tanh(x).
    Tanh,
}

/// The activations of `ACT2FN` that have no parameters.
const NAMES: [(&str, Activation); 22] = [
    ("gelu", Activation::Gelu),
    ("gelu_10", Activation::Gelu10),
    ("gelu_accurate", Activation::GeluTanh),
    ("gelu_fast", Activation::GeluTanh),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_python", Activation::Gelu),
    ("gelu_python_tanh", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("hardswish", Activation::Hardswish),
    ("laplace", Activation::Laplace),
    ("leaky_relu", Activation::LeakyRelu),
    ("linear", Activation::Linear),
    ("mish", Activation::Mish),
    ("quick_gelu", Activation::QuickGelu),
    ("relu", Activation::Relu),
    ("relu2", Activation::Relu2),
    ("relu6", Activation::Relu6),
    ("sigmoid", Activation::Sigmoid),
    ("silu", Activation::Silu),
    ("sqrtsoftplus", Activation::SqrtSoftplus),
    ("swish", Activation::Silu),
    ("tanh", Activation::Tanh),
];

impl Activation {
    /// The activation that `key` of the config names.
    pub fn from_config(config: &ModelConfig, key: &str, default: &str) -> Result<Activation> {
        Activation::named(config, key, config.string_or(key, default)?)
    }

    /// The activation called `name`, which `key` of the config asks for.
    pub fn named(config: &ModelConfig, key: &str, name: &str) -> Result<Activation> {
        let entry = NAMES.iter().find(|(known, _)| *known == name);
        entry.map(|(_, activation)| *activation).ok_or_else(|| {
            let known = NAMES.map(|(name, _)| name).join(", ");
            config.error(key, format!("expected one of {known}, found {name}"))
        })
    }

    /// Applies the function to each element of `gate`, and multiplies with `up`.
    pub fn forward_gated(self, gate: &Tensor, up: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Activation::Silu => gate.gated(up, Gate::Silu)?,
            Activation::Gelu => gate.gated(up, Gate::Gelu)?,
            Activation::GeluTanh => gate.gated(up, Gate::GeluTanh)?,
            _ => self.forward(gate)?.mul(up)?,
        })
    }

    /// Applies the function to each element.
    pub fn forward(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Activation::Gelu => x.gelu(),
            Activation::Gelu10 => x.gelu()?.maximum_scalar(-10.0)?.minimum_scalar(10.0),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::QuickGelu => x.mul_scalar(1.702)?.logistic()?.mul(x),
            Activation::Hardswish => relu6(&x.add_scalar(3.0)?)?.mul(x)?.mul_scalar(1.0 / 6.0),
            Activation::Laplace => laplace(x),
            Activation::LeakyRelu => x.maximum(&x.mul_scalar(0.01)?),
            Activation::Linear => Ok(x.clone()),
            Activation::Mish => softplus(x)?.tanh()?.mul(x),
            Activation::Relu => x.relu(),
            Activation::Relu2 => x.relu()?.mul(&x.relu()?),
            Activation::Relu6 => relu6(x),
            Activation::Sigmoid => x.logistic(),
            Activation::Silu => x.silu(),
            Activation::SqrtSoftplus => softplus(x)?.sqrt(),
            Activation::Tanh => x.tanh(),
        }?)
    }
}

fn relu6(x: &Tensor) -> traind_xla::Result<Tensor> {
    x.relu()?.minimum_scalar(6.0)
}

/// log(1 + exp(x)), without overflow.
fn softplus(x: &Tensor) -> traind_xla::Result<Tensor> {
    x.abs()?.neg()?.exp()?.log1p()?.add(&x.relu()?)
}

/// The constants are those of transformers, to their last digit.
fn laplace(x: &Tensor) -> traind_xla::Result<Tensor> {
    #[expect(clippy::approx_constant, reason = "transformers rounds it to six digits")]
    const MEAN: f64 = 0.707_107;
    const DEVIATION: f64 = 0.282_095;
    let scaled = x.sub_scalar(MEAN)?.mul_scalar(1.0 / (DEVIATION * std::f64::consts::SQRT_2))?;
    scaled.erf()?.add_scalar(1.0)?.mul_scalar(0.5)
}
