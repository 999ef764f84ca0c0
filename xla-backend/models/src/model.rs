//! A model as the training loop sees it: parameters, inputs and a traced forward
//! pass, whole or in stages, from a batch to logits and a loss.

use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use traind_xla::ops::random::Random;
use traind_xla::{DType, Tensor, Trace};

use crate::cache::KeyValueCache;
use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::parameter_shards::ParameterShards;
use crate::parameters::ParameterSpec;
use crate::tensor_parallel::{self, Logits, PositionShare, TensorCores};
use crate::tuning::{Adapters, Applied};

/// A model of one family for one task, built from its config.
///
/// It holds no weights: they are tensors of the trace it is called in.
pub trait Model: Send + Sync {
    fn config(&self) -> &ModelConfig;

    /// The parameters in the order of the forward pass; the order is stable.
    fn parameters(&self) -> &[ParameterSpec];

    /// The adapters beside its weights, which a forward pass applies if it is given them.
    fn adapters(&self) -> &Adapters;

    /// Replaces what is trained: the parameters, those of adapters among them, and the adapters.
    fn tune(&mut self, parameters: Vec<ParameterSpec>, adapters: Adapters);

    /// The submodule that holds all but the head, as transformers calls it.
    fn base_model_prefix(&self) -> &'static str;

    /// The inputs of a batch, in a stable order.
    fn inputs(&self) -> Vec<InputSpec>;

    /// The most rows that a batch of one core may have; `None` for no limit.
    fn rows_max(&self) -> Option<usize> {
        None
    }

    /// The meaning of the logits, for evaluation.
    fn output(&self) -> OutputKind;

    /// The number of repeated layers.
    fn num_layers(&self) -> usize;

    /// Whether two layers trace the same operations, if their parameters have the same shapes.
    fn traces_alike(&self, layer: usize, other: usize) -> bool;

    /// Traces the first stage: one core's share of the batch as the first layer takes it.
    fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates>;

    /// Traces some of the repeated layers.
    fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates>;

    /// Traces all that follows the last layer: logits and, with labels, the loss.
    fn head(&self, cx: &Forward<'_>, states: &HiddenStates, batch: &Batch) -> Result<Output>;

    /// Traces all stages for one core's share of the batch.
    fn forward(&self, cx: &Forward<'_>, batch: &Batch) -> Result<Output> {
        let states = self.embeddings(cx, batch)?;
        let states = self.layers(cx, 0..self.num_layers(), states, batch)?;
        self.head(cx, &states, batch)
    }

    /// Whether it writes texts token by token.
    fn is_generative(&self) -> bool;

    /// Traces the logits of the token behind the last one of each row, f32[R, V]. `last` s32[R] is the
    /// place of that one among the row's positions; without it, the pass has one position.
    fn next_token_logits(
        &self,
        cx: &Forward<'_>,
        batch: &Batch,
        last: Option<&Tensor>,
    ) -> Result<Tensor>;

    /// Whether the cores of the `tensor` axis can share its layers.
    fn is_tensor_parallel(&self) -> bool;

    /// The rows of the token embedding: every token id is below it.
    fn vocab_size(&self) -> usize;

    /// The longest row that the model can read.
    fn max_positions(&self) -> usize;

    /// Floating-point operations of one forward pass, dots only; a training
    /// step is three times as many.
    fn forward_flops(&self, rows: usize, lengths: Lengths) -> f64;

    /// Refuses a number of cores that cannot share its layers.
    fn check_tensor_parallel(&self, cores: usize) -> Result<()> {
        if cores > 1 && !self.is_tensor_parallel() {
            let model_type = self.config().model_type()?.to_owned();
            return Err(Error::NoTensorParallelism { model_type });
        }
        tensor_parallel::check(self.parameters(), cores)
    }

    /// Refuses a tokenizer that can give ids beyond the embedding.
    fn check_vocabulary(&self, tokenizer_tokens: usize) -> Result<()> {
        if tokenizer_tokens <= self.vocab_size() {
            return Ok(());
        }
        Err(Error::Vocabulary {
            path: self.config().path().to_owned(),
            tokenizer: tokenizer_tokens,
            embedding: self.vocab_size(),
        })
    }
}

/// The meaning of logits: B rows, S positions, C classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OutputKind {
    /// f32[B, C], to be compared with the row's label or labels.
    PerRow { classes: usize },
    /// f32[B, S, C], to be compared with the label of the same token.
    PerToken { classes: usize },
    /// f32[B, S, C], to be compared with the label of the token behind.
    NextToken { classes: usize },
    /// f32[B, S, 2]: each token's scores as the answer's start and as its end.
    Span,
}

/// The padded lengths of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    pub positions: usize,
    /// 0 where the model reads one sequence.
    pub target_positions: usize,
}

impl Lengths {
    /// Lengths for a model that reads one sequence.
    pub fn of(positions: usize) -> Lengths {
        Lengths { positions, target_positions: 0 }
    }
}

/// One size of an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputDim {
    /// The rows of this core's batch.
    Rows,
    /// The padded length of the batch: of its sources, where targets have a length of their own.
    Positions,
    /// The padded length of the targets.
    TargetPositions,
    Size(usize),
}

/// Whether a batch must have an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputRole {
    Required,
    /// An input with a default that the model documents.
    Optional,
    /// What the loss compares the logits with. Rows to predict on lack it.
    Target,
}

/// An input of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InputSpec {
    pub name: &'static str,
    pub dtype: DType,
    pub dims: Vec<InputDim>,
    pub role: InputRole,
}

impl InputSpec {
    pub fn required(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Required }
    }

    pub fn optional(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Optional }
    }

    pub fn target(name: &'static str, dtype: DType, dims: &[InputDim]) -> InputSpec {
        InputSpec { name, dtype, dims: dims.to_vec(), role: InputRole::Target }
    }

    /// Returns true for an input that only the loss needs.
    pub fn is_target(&self) -> bool {
        self.role == InputRole::Target
    }
}

/// Named tensors of one core's rows.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    tensors: HashMap<String, Tensor>,
}

impl Batch {
    pub fn new() -> Batch {
        Batch::default()
    }

    pub fn insert(&mut self, name: &str, tensor: Tensor) {
        self.tensors.insert(name.to_owned(), tensor);
    }

    /// The input called `name`; an error where the batch lacks it.
    pub fn get(&self, name: &str) -> Result<&Tensor> {
        self.optional(name).ok_or_else(|| Error::MissingInput { name: name.to_owned() })
    }

    pub fn optional(&self, name: &str) -> Option<&Tensor> {
        self.tensors.get(name)
    }

    /// The number of rows of this core.
    pub fn rows(&self) -> Result<usize> {
        Ok(self.any_row_input()?.dims().first().copied().unwrap_or_default())
    }

    /// The input that every batch of its kind of model has: images, or else tokens.
    pub(crate) fn any_row_input(&self) -> Result<&Tensor> {
        self.optional("pixel_values").map_or_else(|| self.get("input_ids"), Ok)
    }
}

/// The parameters' tensors in one trace, by name, the type in which they are
/// multiplied, and the cores that have the other parts of divided ones and of
/// those in shards.
#[derive(Clone, Debug)]
pub struct ParameterTensors {
    tensors: Rc<HashMap<String, Tensor>>,
    compute_dtype: DType,
    cores: Option<TensorCores>,
    /// Present where cores divide the positions between the layers that are being traced.
    positions: Option<PositionShare>,
    shards: Rc<ParameterShards>,
    /// Where it is known, shards may be gathered: a value of [`Trace::never`].
    never: Option<Tensor>,
}

impl ParameterTensors {
    pub fn new<N: Into<String>>(
        tensors: impl IntoIterator<Item = (N, Tensor)>,
    ) -> ParameterTensors {
        let tensors = tensors.into_iter().map(|(name, tensor)| (name.into(), tensor)).collect();
        ParameterTensors {
            tensors: Rc::new(tensors),
            compute_dtype: DType::F32,
            cores: None,
            positions: None,
            shards: Rc::default(),
            never: None,
        }
    }

    /// Declares that those of `shards` are stored so.
    pub fn stored_in(self, shards: ParameterShards) -> ParameterTensors {
        ParameterTensors { shards: Rc::new(shards), ..self }
    }

    /// Declares that each of `cores` has its part of the parameters that can be divided.
    pub fn divided_over(self, cores: Option<TensorCores>) -> ParameterTensors {
        ParameterTensors { cores, ..self }
    }

    /// The same parameters for layers between which each core has a share of the positions, if one is
    /// given.
    pub(crate) fn between_layers(&self, positions: Option<PositionShare>) -> ParameterTensors {
        ParameterTensors { positions, ..self.clone() }
    }

    /// The cores that share each layer; `None` where each has all of it.
    pub(crate) fn cores(&self) -> Option<&TensorCores> {
        self.cores.as_ref()
    }

    pub(crate) fn positions(&self) -> Option<&PositionShare> {
        self.positions.as_ref()
    }

    /// Lets linear layers and attention compute in `dtype`, as PyTorch's
    /// autocast does: parameters and activations are converted at each product
    /// and gradients arrive in float32. Embeddings, norms, softmax, the sums
    /// between layers and the loss stay float32.
    pub fn computed_in(self, dtype: DType) -> ParameterTensors {
        ParameterTensors { compute_dtype: dtype, ..self }
    }

    /// The same parameters, of which shards are gathered no sooner than `x` is there.
    fn gathered_after(&self, x: &Tensor) -> Result<ParameterTensors> {
        if self.shards.is_empty() {
            return Ok(self.clone());
        }
        let never = x.trace().never(std::slice::from_ref(x))?;
        Ok(ParameterTensors { never: Some(never), ..self.clone() })
    }

    /// The parameter called `name`, as it is stored or in another type; an error where the stage has
    /// none.
    fn read(&self, name: &str, dtype: Option<DType>) -> Result<Tensor> {
        let missing = || Error::MissingWeight { name: name.to_owned() };
        let stored = self.tensors.get(name).ok_or_else(missing)?;
        let dtype = dtype.unwrap_or(stored.dtype());
        self.shards.read(name, stored, dtype, self.never.as_ref())
    }
}

/// The context of a forward pass.
#[derive(Clone, Copy)]
pub struct Forward<'a> {
    pub trace: &'a Trace,
    pub parameters: &'a ParameterTensors,
    /// Present while training: dropout is on.
    pub random: Option<&'a Random>,
    /// Recompute the activations of each layer in the backward pass.
    pub gradient_checkpointing: bool,
    /// The adapters that apply; none for the model without them.
    pub adapters: Option<&'a Adapters>,
    /// Present while text is generated.
    pub cache: Option<&'a KeyValueCache>,
    /// Noise of embedded words while training (NEFTune), times the root of their width: an f32 scalar.
    pub embedding_noise: Option<&'a Tensor>,
}

impl Forward<'_> {
    /// The type of products: float32, bfloat16 or float16.
    pub fn compute_dtype(&self) -> DType {
        self.parameters.compute_dtype
    }

    /// A parameter in float32.
    pub fn parameter(&self, name: &str) -> Result<Tensor> {
        self.parameters.read(name, Some(DType::F32))
    }

    /// A parameter in the type of products.
    pub fn factor(&self, name: &str) -> Result<Tensor> {
        self.parameters.read(name, Some(self.compute_dtype()))
    }

    /// A parameter in the type in which it is stored.
    pub fn stored(&self, name: &str) -> Result<Tensor> {
        self.parameters.read(name, None)
    }

    /// The result of a linear layer with what an adapter adds.
    pub(crate) fn adapted(&self, layer: Applied<'_>) -> Result<Tensor> {
        match self.adapters {
            Some(adapters) => adapters.apply(self, layer),
            None => Ok(layer.y),
        }
    }

    /// The position of each row's token, s32[R], where the pass reads one token of each row behind
    /// cached ones.
    pub(crate) fn cached_positions(&self) -> Option<&Tensor> {
        self.cache.and_then(KeyValueCache::positions)
    }

    /// The keys and values that the tokens of a pass attend to, from their own [B, S, K, D].
    pub(crate) fn with_cached(&self, own: [Tensor; 2]) -> Result<[Tensor; 2]> {
        self.cache.map_or_else(|| Ok(own.clone()), |cache| cache.add_tokens(own.clone()))
    }

    /// The keys and values of a source, which `project` computes unless they are cached.
    pub(crate) fn with_source(
        &self,
        project: impl FnOnce() -> Result<[Tensor; 2]>,
    ) -> Result<[Tensor; 2]> {
        match self.cache {
            Some(cache) => cache.source(project),
            None => project(),
        }
    }

    /// Traces one repeated layer, which reads `x`: the unit of gradient checkpointing, and of gathering
    /// parameters in shards.
    pub fn layer<T>(
        &self,
        name: &str,
        x: &Tensor,
        body: impl FnOnce(&Forward<'_>) -> Result<T>,
    ) -> Result<T> {
        let body = || self.after(x, body);
        if self.gradient_checkpointing {
            self.trace.checkpoint(name, || Ok(body()))?
        } else {
            self.scope(name, body)
        }
    }

    /// Traces what gathers its parameters no sooner than `x` is there.
    pub(crate) fn after<T>(
        &self,
        x: &Tensor,
        body: impl FnOnce(&Forward<'_>) -> Result<T>,
    ) -> Result<T> {
        let parameters = self.parameters.gathered_after(x)?;
        body(&Forward { parameters: &parameters, ..*self })
    }

    /// Traces a named part of the model.
    pub fn scope<T>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.trace.scope(name, || Ok(body()))?
    }
}

/// The values that one stage of a model hands to the next: B rows, S positions,
/// H hidden size. They have two axes: with three, XLA's CPU backend puts a change
/// of shape between each dot and what surrounds it, and then computes the whole
/// backward pass so far again in each operation that reads it.
#[derive(Clone, Debug)]
pub struct HiddenStates {
    /// States of the sequence that the head reads, f32[B S, H].
    pub last: Tensor,
    /// States of the source sequence, to which the layers of a decoder attend, f32[B S', H].
    pub encoder: Option<Tensor>,
}

impl HiddenStates {
    /// States of a model that reads one sequence.
    pub fn of(last: Tensor) -> HiddenStates {
        HiddenStates { last, encoder: None }
    }

    /// All tensors, those of `last` first.
    pub fn tensors(&self) -> impl Iterator<Item = &Tensor> {
        std::iter::once(&self.last).chain(&self.encoder)
    }

    /// States of the tensors in the order of [`HiddenStates::tensors`].
    pub fn of_tensors(mut tensors: impl Iterator<Item = Tensor>) -> Option<HiddenStates> {
        Some(HiddenStates { last: tensors.next()?, encoder: tensors.next() })
    }
}

#[derive(Clone, Debug)]
pub struct Output {
    pub logits: Logits,
    /// Present when the batch holds labels.
    pub loss: Option<LossSum>,
}

/// A loss before its normalization, so that cores and accumulated batches add
/// up: the mean loss is the total of `loss_sum` over the total of `weight_sum`.
#[derive(Clone, Debug)]
pub struct LossSum {
    /// Sum of weight x loss over this core's rows (or tokens), f32.
    pub loss_sum: Tensor,
    /// Sum of the weights, f32.
    pub weight_sum: Tensor,
}
