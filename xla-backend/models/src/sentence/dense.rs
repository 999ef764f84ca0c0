//! `2_Dense`: a linear layer with an activation behind the pooling, as sentence-transformers' `Dense`. Its weights
//! stand in a folder of its own, and in the model's parameters below that folder's name.

use std::path::Path;

use serde_json::{Value, json};
use traind_choices::DenseActivation;

use super::{problem_in, read};
use crate::error::Result;

/// The class of each activation in PyTorch.
const ACTIVATIONS: [(&str, DenseActivation); 6] = [
    ("torch.nn.modules.linear.Identity", DenseActivation::Identity),
    ("torch.nn.modules.activation.Tanh", DenseActivation::Tanh),
    ("torch.nn.modules.activation.ReLU", DenseActivation::Relu),
    ("torch.nn.modules.activation.GELU", DenseActivation::Gelu),
    ("torch.nn.modules.activation.SiLU", DenseActivation::Silu),
    ("torch.nn.modules.activation.Sigmoid", DenseActivation::Sigmoid),
];
/// The key of the embedding that a layer reads and writes.
const EMBEDDING: &str = "sentence_embedding";
const SUFFIX: &str = "_Dense";

/// A linear layer behind the pooling.
#[derive(Clone, Debug, PartialEq)]
pub struct Dense {
    /// The name of its folder, a number and `_Dense`.
    pub folder: String,
    /// The numbers of the embeddings that it reads.
    pub in_features: usize,
    /// The numbers of those that it gives.
    pub out_features: usize,
    /// Whether it has a bias.
    pub bias: bool,
    /// The function of its outputs.
    pub activation: DenseActivation,
    /// Whether its input is added to its output, by a matrix where their widths differ.
    pub use_residual: bool,
}

impl Dense {
    /// Reads the layer of the folder `name` of a model folder.
    pub(super) fn load(model: &Path, name: &str) -> Result<Dense> {
        let path = model.join(name).join("config.json");
        let refused = |key: &str, problem: String| problem_in(&path, key, problem);
        if module_of(&format!("{name}.")) != Some(name) {
            let problem = format!("{name} is not the name of a folder like 2_Dense");
            return Err(problem_in(&model.join(super::MODULES), "path", problem));
        }
        let Some(config) = read(&path)? else {
            return Err(refused("in_features", "the file is missing".to_owned()));
        };
        let size = |key: &str| {
            let size = config[key].as_u64().filter(|size| (1..1 << 24).contains(size));
            let problem = || format!("expected a number of features, found {}", config[key]);
            size.map(|size| size as usize).ok_or_else(|| refused(key, problem()))
        };
        for key in ["module_input_name", "module_output_name"] {
            if let Some(name) = config[key].as_str().filter(|name| *name != EMBEDDING) {
                let problem = format!("{name} is not supported: {EMBEDDING} is");
                return Err(refused(key, problem));
            }
        }
        Ok(Dense {
            folder: name.to_owned(),
            in_features: size("in_features")?,
            out_features: size("out_features")?,
            bias: config["bias"].as_bool().unwrap_or(true),
            activation: activation(&path, &config)?,
            use_residual: config["use_residual"].as_bool().unwrap_or(false),
        })
    }

    /// Its `config.json`.
    pub(super) fn config(&self) -> Value {
        let class = ACTIVATIONS.iter().find(|(_, activation)| *activation == self.activation);
        let mut config = json!({
            "in_features": self.in_features,
            "out_features": self.out_features,
            "bias": self.bias,
            "activation_function": class.map(|(name, _)| *name),
            "module_input_name": EMBEDDING,
            "module_output_name": EMBEDDING,
        });
        // Versions before 5.7 refuse the key.
        if self.use_residual {
            config["use_residual"] = true.into();
        }
        config
    }
}

/// Tanh where the file names none.
fn activation(path: &Path, config: &Value) -> Result<DenseActivation> {
    const KEY: &str = "activation_function";
    let Some(name) = config[KEY].as_str() else { return Ok(DenseActivation::Tanh) };
    let class = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let known = ACTIVATIONS.iter().find(|(known, _)| class(known) == class(name));
    known.map(|(_, activation)| *activation).ok_or_else(|| {
        let known = ACTIVATIONS.map(|(name, _)| class(name)).join(", ");
        problem_in(path, KEY, format!("{name} is not supported: {known} are"))
    })
}

/// The folder of the module that has a parameter, where it is not the model itself.
pub(crate) fn module_of(parameter: &str) -> Option<&str> {
    let (folder, _) = parameter.split_once('.')?;
    let number = folder.strip_suffix(SUFFIX)?;
    let is_number = (1..=3).contains(&number.len()) && number.bytes().all(|it| it.is_ascii_digit());
    is_number.then_some(folder)
}
