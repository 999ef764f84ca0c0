//! What a model's parameters are called, how large they are and how they
//! start. Layers declare theirs while the model is built, below a path that
//! grows like a PyTorch module's, so that names are those of the checkpoint.

use traind_xla::{DType, Shape};

/// How a parameter that no checkpoint holds is drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Init {
    Zeros,
    Ones,
    Normal {
        std: f64,
    },
    /// Normal, except for a row of zeros: an embedding's padding token.
    NormalWithZeroRow {
        std: f64,
        row: usize,
    },
}

#[derive(Clone, Debug, PartialEq)]
pub struct ParameterSpec {
    /// The name in Hugging Face's checkpoint.
    pub name: String,
    pub shape: Shape,
    pub init: Init,
    /// Whether the optimizer decays it: not biases, not normalization layers.
    pub weight_decay: bool,
    /// Names of other parameters of transformers' model that are this one.
    /// Checkpoints may hold them too; they are never saved.
    pub tied: Vec<String>,
}

/// The place in the module tree where a layer declares its parameters.
#[derive(Debug)]
pub struct ParameterPath<'a> {
    specs: &'a mut Vec<ParameterSpec>,
    prefix: String,
}

impl<'a> ParameterPath<'a> {
    pub fn root(specs: &'a mut Vec<ParameterSpec>) -> ParameterPath<'a> {
        ParameterPath { specs, prefix: String::new() }
    }

    /// The submodule `name`, which may itself be dotted.
    pub fn at(&mut self, name: &str) -> ParameterPath<'_> {
        let prefix = self.name_of(name);
        ParameterPath { specs: self.specs, prefix }
    }

    /// Declares a decayed float32 parameter and returns its full name.
    pub fn weight(&mut self, name: &str, dims: &[usize], init: Init) -> String {
        self.declare(name, dims, init, true)
    }

    /// Declares a parameter that is not decayed: a bias or a norm's scale.
    pub fn undecayed(&mut self, name: &str, dims: &[usize], init: Init) -> String {
        self.declare(name, dims, init, false)
    }

    /// Says that `alias` is the declared parameter `name`.
    pub fn tie(&mut self, name: &str, alias: &str) {
        let (name, alias) = (self.name_of(name), self.name_of(alias));
        let spec = self.specs.iter_mut().find(|spec| spec.name == name);
        debug_assert!(spec.is_some(), "{alias} is tied to {name}, which nothing declares");
        if let Some(spec) = spec {
            spec.tied.push(alias);
        }
    }

    fn declare(&mut self, name: &str, dims: &[usize], init: Init, weight_decay: bool) -> String {
        let name = self.name_of(name);
        let shape = Shape::new(DType::F32, dims);
        let tied = Vec::new();
        self.specs.push(ParameterSpec { name: name.clone(), shape, init, weight_decay, tied });
        name
    }

    fn name_of(&self, name: &str) -> String {
        if self.prefix.is_empty() { name.to_owned() } else { format!("{}.{name}", self.prefix) }
    }
}
