//! Activations under transformers' names (`ACT2FN`).

use traind_xla::Tensor;

use crate::config::ModelConfig;
use crate::error::Result;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    Gelu,
    GeluTanh,
    Relu,
    Silu,
    Tanh,
}

const NAMES: [(&str, Activation); 8] = [
    ("gelu", Activation::Gelu),
    ("gelu_python", Activation::Gelu),
    ("gelu_new", Activation::GeluTanh),
    ("gelu_pytorch_tanh", Activation::GeluTanh),
    ("relu", Activation::Relu),
    ("silu", Activation::Silu),
    ("swish", Activation::Silu),
    ("tanh", Activation::Tanh),
];

impl Activation {
    /// The activation that `key` of the config names.
    pub fn from_config(config: &ModelConfig, key: &str, default: &str) -> Result<Activation> {
        let name = config.string_or(key, default)?;
        let entry = NAMES.iter().find(|(known, _)| *known == name);
        entry.map(|(_, activation)| *activation).ok_or_else(|| {
            let known = NAMES.map(|(name, _)| name).join(", ");
            config.error(key, format!("expected one of {known}, found {name}"))
        })
    }

    /// Applies the function to each element.
    pub fn forward(self, x: &Tensor) -> Result<Tensor> {
        Ok(match self {
            Activation::Gelu => x.gelu(),
            Activation::GeluTanh => x.gelu_tanh(),
            Activation::Relu => x.relu(),
            Activation::Silu => x.silu(),
            Activation::Tanh => x.tanh(),
        }?)
    }
}
