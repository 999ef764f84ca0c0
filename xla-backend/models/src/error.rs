//! One error for the crate. Every variant names the file, the key, the tensor
//! or the input that it is about.

use std::path::PathBuf;

use traind_xla::Shape;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("{} is not a JSON object", path.display())]
    Json { path: PathBuf, source: serde_json::Error },

    /// A key of `config.json`, or an override of it, has an unusable value.
    #[error("{}: {key}: {problem}", path.display())]
    Config { path: PathBuf, key: String, problem: String },

    /// An override names a key that the family does not have.
    #[error(
        "{key} is not a key of a {model_type} config{}",
        nearest.as_ref().map(|near| format!(", did you mean {near}?")).unwrap_or_default()
    )]
    UnknownOverride { key: String, model_type: String, nearest: Option<String> },

    #[error("{}: model_type {model_type} is unknown, known are {}", path.display(), known.join(", "))]
    UnknownModelType { path: PathBuf, model_type: String, known: Vec<&'static str> },

    #[error("{model_type} has no {task}, it has {}", supported.join(", "))]
    UnsupportedTask { model_type: String, task: String, supported: Vec<&'static str> },

    /// A name that is not in one of the lists of this crate.
    #[error("{what} {name} is unknown, known are {}", known.join(", "))]
    UnknownName { what: &'static str, name: String, known: Vec<&'static str> },

    /// A name of the job file that stands for no part of the model.
    #[error(
        "{field}: the model has no {name}{}",
        nearest.as_ref().map(|near| format!(", did you mean {near}?")).unwrap_or_default()
    )]
    NoSuchModule { field: &'static str, name: String, nearest: Option<String> },

    /// Settings that leave no parameter to train.
    #[error("{field}: nothing of the model is left to train")]
    NothingToTrain { field: &'static str },

    /// Training apart what a model has twice.
    #[error("{field}: {name} is also another parameter of the model (tie_word_embeddings)")]
    TiedModule { field: &'static str, name: String },

    /// A number outside its range, such as a negative decay.
    #[error("{name}: expected {expected}, found {found}")]
    Setting { name: &'static str, expected: &'static str, found: f64 },

    /// Label smoothing was asked for where labels are numbers and no classes.
    #[error("label_smoothing_factor: labels that are numbers cannot be smoothed")]
    UnsmoothableLabels,

    /// The tokenizer can give ids that the embedding has no row for.
    #[error(
        "the tokenizer has {tokenizer} tokens and the embedding {embedding} rows ({}: vocab_size)",
        path.display()
    )]
    Vocabulary { path: PathBuf, tokenizer: usize, embedding: usize },

    /// A batch is longer than the model has positions for.
    #[error("a batch of {positions} positions, and the model has {max_positions}")]
    TooManyPositions { positions: usize, max_positions: usize },

    /// A forward pass was given a batch without an input that it needs.
    #[error("the batch has no {name}")]
    MissingInput { name: String },

    /// A forward pass was given weights without one that it needs.
    #[error("the weights have no {name}")]
    MissingWeight { name: String },

    /// A file of adapters lacks one.
    #[error("{}: no tensor {name}", path.display())]
    MissingTensor { path: PathBuf, name: String },

    /// Weights that only PyTorch can read.
    #[error(
        "{}: pickled weights are not read; this writes them as model.safetensors in their folder: \
         python -c \"import torch, safetensors.torch as s; s.save_file({{n: t.contiguous().clone() \
         for n, t in torch.load('pytorch_model.bin', weights_only=True).items()}}, \
         'model.safetensors', {{'format': 'pt'}})\"",
        path.display()
    )]
    PickledWeights { path: PathBuf },

    #[error("{}: no model.safetensors and no model.safetensors.index.json", folder.display())]
    NoWeights { folder: PathBuf },

    /// A weight file that is truncated or is not a safetensors file.
    #[error("{} is not a whole safetensors file: {problem}", path.display())]
    Corrupt { path: PathBuf, problem: String },

    #[error(
        "{}: tensor {tensor} is {found:?} and the config makes it {expected:?}; \
         model.ignore_mismatched_sizes: true begins with random values in its place",
        path.display()
    )]
    WeightShape { path: PathBuf, tensor: String, found: Vec<usize>, expected: Vec<usize> },

    #[error("{}: tensor {tensor} holds {dtype}, which is not a floating-point type", path.display())]
    WeightDType { path: PathBuf, tensor: String, dtype: String },

    /// An array to be saved does not fit the parameter of its name.
    #[error("{name}: {found} for {expected}")]
    ArrayShape { name: String, found: Shape, expected: Shape },

    /// Cores that cannot share a parameter evenly.
    #[error(
        "parallel.tensor is {cores}, which does not divide the {count} {what} of {parameter}; the \
         nearest that divides all is {nearest}"
    )]
    Indivisible {
        parameter: String,
        count: usize,
        what: &'static str,
        cores: usize,
        nearest: usize,
    },

    /// A family whose layers cores cannot share.
    #[error(
        "parallel.tensor: the layers of {model_type} models cannot be shared by cores; 1 works"
    )]
    NoTensorParallelism { model_type: String },

    #[error("{name}: no memory for {shape}")]
    OutOfMemory { name: String, shape: Shape },

    #[error(transparent)]
    Xla(#[from] traind_xla::Error),
}
