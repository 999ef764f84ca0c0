//! One error for the crate. Every variant names the file, the key, the tensor
//! or the input that it is about.

use std::borrow::Cow;
use std::ops::Range;
use std::path::PathBuf;

use traind_wording::counted;
use traind_xla::Shape;

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure to read, build, run or save a model.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "each message says what its variant and its fields are")]
pub enum Error {
    #[error("{action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: std::io::Error },

    #[error("{} is not a JSON object", path.display())]
    Json { path: PathBuf, source: serde_json::Error },

    /// The folder of a model has adapters alone.
    #[error(
        "{} has adapters and no model: name {base} as the model and this folder as peft.adapter_name_or_path, or let \
         the job that trains them write a whole model, by peft.merge: true",
        folder.display()
    )]
    OnlyAdapters { folder: PathBuf, base: String },

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
    #[error(
        "{what} {name} is unknown, {}",
        match &known[..] {
            [] => "there are none".to_owned(),
            known => format!("known are {}", known.join(", ")),
        }
    )]
    UnknownName { what: &'static str, name: String, known: Vec<&'static str> },

    /// A name of the job file that stands for no part of the model.
    #[error(
        "{field}: the model has no {name}{}",
        nearest.as_ref().map(|near| format!(", did you mean {near}?")).unwrap_or_default()
    )]
    NoSuchModule { field: &'static str, name: String, nearest: Option<String> },

    /// Adapters for an embedding or a norm.
    #[error(
        "{field}: {name} is not a linear layer and gets no adapters; peft.modules_to_save trains it in full"
    )]
    NotLinear { field: &'static str, name: String },

    /// Settings that leave no parameter to train.
    #[error("{field}: nothing of the model is left to train")]
    NothingToTrain { field: &'static str },

    /// Training apart what a model has twice.
    #[error(
        "{field}: {name} is also another parameter of the model (tie_word_embeddings); \
         peft.ensure_weight_tying: true trains both as one"
    )]
    TiedModule { field: &'static str, name: String },

    /// A parameter that several modules share, trained whole beside adapters.
    #[error(
        "{field}: {name} is one parameter here and those of several modules in PEFT, which are not trained whole: \
         name them in peft.target_modules"
    )]
    JoinedModules { field: &'static str, name: String },

    /// Tokens whose rows cannot be trained.
    #[error("{field}: {problem}")]
    TokenIndices { field: &'static str, problem: String },

    /// A pattern of parameters' names that is none.
    #[error("{pattern} is not a regular expression: {problem}")]
    Pattern { pattern: String, problem: String },

    /// A group of parameters that has none.
    #[error("train.param_groups: `{pattern}` {problem}; one is named {example}")]
    EmptyGroup { pattern: String, problem: &'static str, example: String },

    /// A number outside its range, such as a negative decay.
    #[error("{name}: expected {expected}, found {found}")]
    Setting { name: &'static str, expected: Cow<'static, str>, found: f64 },

    /// One of an optimizer's own settings has a value of another kind.
    #[error("optim_args.{name}: expected {expected}, found {found}")]
    OptimArg { name: String, expected: &'static str, found: &'static str },

    /// A loss was asked for that compares other labels than those of the task.
    #[error("train.loss: {loss} does not fit labels that are {labels}")]
    UnfitLoss { loss: &'static str, labels: &'static str },

    /// The weights of classes were given for another number of classes.
    #[error(
        "train.class_weights: {}, and the model has {}",
        counted(.found, "number"),
        counted(.classes, "class")
    )]
    ClassWeights { found: usize, classes: usize },

    /// The tokenizer can give ids that the embedding has no row for.
    #[error(
        "the tokenizer has {tokenizer} tokens and the embedding {embedding} rows ({}: vocab_size)",
        path.display()
    )]
    Vocabulary { path: PathBuf, tokenizer: usize, embedding: usize },

    /// A batch is longer than the model has positions for.
    #[error("a batch of {positions} positions, and the model has {max_positions}")]
    TooManyPositions { positions: usize, max_positions: usize },

    /// Text was to be generated by a model that is not a decoder with a language model's head.
    #[error("models of type {model_type} generate no text for this task")]
    NoGeneration { model_type: String },

    /// A forward pass was given a batch without an input that it needs.
    #[error("the batch has no {name}")]
    MissingInput { name: String },

    /// A forward pass was given weights without one that it needs.
    #[error("the weights have no {name}")]
    MissingWeight { name: String },

    /// A file of adapters, or the folder of a model that is complete, lacks a tensor.
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

    /// Adapters that only PyTorch can read.
    #[error(
        "{}: pickled adapters are not read; this writes them as adapter_model.safetensors in their folder: \
         python -c \"import torch, safetensors.torch as s; s.save_file({{n: t.contiguous().clone() \
         for n, t in torch.load('adapter_model.bin', weights_only=True).items()}}, \
         'adapter_model.safetensors', {{'format': 'pt'}})\"",
        path.display()
    )]
    PickledAdapters { path: PathBuf },

    /// A GGUF file that is damaged, or that has a model or a tokenizer without a counterpart here.
    #[error("{}: {problem}", path.display())]
    Gguf { path: PathBuf, problem: String },

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

    /// Elements were to be taken from a part of an array that has others.
    #[error("the part {held:?} of an array of {shape} has no elements {elements:?}")]
    NotHeld { shape: Shape, elements: Range<usize>, held: Vec<Range<usize>> },

    /// The files of all hosts lack a part of an array.
    #[error("{}: the files of all hosts have the elements {held:?} of {name}, and no others", folder.display())]
    MissingElements { folder: PathBuf, name: String, held: Vec<Range<usize>> },

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

/// Refuses a setting whose value does not fit what is `expected`.
pub(crate) fn check_setting(
    name: &'static str,
    expected: impl Into<Cow<'static, str>>,
    found: f64,
    fits: impl Fn(f64) -> bool,
) -> Result<()> {
    if fits(found) {
        Ok(())
    } else {
        Err(Error::Setting { name, expected: expected.into(), found })
    }
}
