//! The context of a forward pass: the parameters in a trace, and all that layers ask for beside their input.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;

use traind_xla::ops::random::Random;
use traind_xla::{DType, Tensor, Trace};

use super::ReadTokens;
use crate::cache::KeyValueCache;
use crate::error::{Error, Result};
use crate::parameter_shards::ParameterShards;
use crate::tensor_parallel::{PositionShare, TensorCores};
use crate::tuning::{Adapters, Applied};

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
    /// Present in layers behind whose attention only these tokens are read.
    read_tokens: Option<ReadTokens>,
    shards: Rc<ParameterShards>,
    /// Known as soon as the shards may be gathered: a value of [`Trace::never`].
    never: Option<Tensor>,
    ahead: Rc<RefCell<Ahead>>,
}

/// Values that the gathers of the next layer wait for.
#[derive(Clone, Debug, Default)]
struct Ahead {
    /// Known when the input of the layer that is being traced is: a value of [`Trace::never`].
    known: Option<Tensor>,
    /// The parameters of that layer. Compilers that join gathers would wait for two layers at once, if
    /// nothing put the next one behind these.
    gathered: Vec<Tensor>,
}

impl ParameterTensors {
    /// Returns the tensors of whole parameters by name.
    pub fn new<N: Into<String>>(
        tensors: impl IntoIterator<Item = (N, Tensor)>,
    ) -> ParameterTensors {
        let tensors = tensors.into_iter().map(|(name, tensor)| (name.into(), tensor)).collect();
        ParameterTensors {
            tensors: Rc::new(tensors),
            compute_dtype: DType::F32,
            cores: None,
            positions: None,
            read_tokens: None,
            shards: Rc::default(),
            never: None,
            ahead: Rc::default(),
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

    /// The same parameters for layers of which only these tokens are read, if they are given.
    pub(crate) fn for_reading(&self, read_tokens: Option<ReadTokens>) -> ParameterTensors {
        ParameterTensors { read_tokens, ..self.clone() }
    }

    pub(crate) fn read_tokens(&self) -> Option<&ReadTokens> {
        self.read_tokens.as_ref()
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

    /// The same parameters for a layer that reads `x`. Their shards are gathered one layer ahead: as soon as the
    /// input of the layer traced before exists, and no sooner.
    fn gathered_ahead_of(&self, x: &Tensor) -> Result<ParameterTensors> {
        if self.shards.is_empty() {
            return Ok(self.clone());
        }
        let trace = x.trace();
        let known = trace.never(std::slice::from_ref(x))?;
        let mut ahead = self.ahead.borrow_mut();
        let Ahead { known: before, gathered } = std::mem::take(&mut *ahead);
        let Some(before) = before else {
            ahead.known = Some(known.clone());
            return Ok(ParameterTensors { never: Some(known), ..self.clone() });
        };
        // The input of a decoder's first layer exists before the encoder's layers have run.
        ahead.known = Some(known.or(&before)?);
        let never =
            if gathered.is_empty() { before } else { before.or(&trace.never(&gathered)?)? };
        Ok(ParameterTensors { never: Some(never), ..self.clone() })
    }

    /// The parameter called `name`, as it is stored or in another type; an error where the stage has
    /// none.
    pub(crate) fn read(&self, name: &str, dtype: Option<DType>) -> Result<Tensor> {
        let missing = || Error::MissingWeight { name: name.to_owned() };
        let stored = self.tensors.get(name).ok_or_else(missing)?;
        let dtype = dtype.unwrap_or(stored.dtype());
        if !self.shards.has(name) {
            return Ok(stored.convert(dtype)?);
        }
        let whole = self.shards.gather(name, stored, dtype, self.never.as_ref())?;
        self.ahead.borrow_mut().gathered.push(whole.clone());
        Ok(whole)
    }
}

/// The context of a forward pass.
#[derive(Clone, Copy)]
pub struct Forward<'a> {
    /// The trace that records the pass.
    pub trace: &'a Trace,
    /// The parameters of the model.
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
    /// The type of the operands and results of products: float32, bfloat16 or float16. Kernels round
    /// float32 operands to bfloat16 themselves.
    pub fn compute_dtype(&self) -> DType {
        self.trace.kernels().operand_dtype(self.parameters.compute_dtype)
    }

    fn has_rounding_products(&self) -> bool {
        self.compute_dtype() != self.parameters.compute_dtype
    }

    /// `x` [..., I] by `weight` [O, I], both in the type of products, plus `bias` [O].
    pub(crate) fn linear(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Tensor> {
        match self.has_rounding_products() {
            true => Ok(x.bf16_linear(weight, bias)?),
            false => Ok(x.linear(weight, bias)?),
        }
    }

    /// `x` [N, I] by `weight` [I, O], both in the type of products, plus `bias` [O].
    pub(crate) fn matmul(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: Option<&Tensor>,
    ) -> Result<Tensor> {
        match self.has_rounding_products() {
            true => Ok(x.bf16_matmul(weight, bias)?),
            false => Ok(x.linear_transposed(weight, bias)?),
        }
    }

    /// A parameter in float32.
    pub fn parameter(&self, name: &str) -> Result<Tensor> {
        self.read(name, Some(DType::F32))
    }

    /// A parameter in the type of products.
    pub fn factor(&self, name: &str) -> Result<Tensor> {
        self.read(name, Some(self.compute_dtype()))
    }

    /// A parameter in the type in which it is stored.
    pub fn stored(&self, name: &str) -> Result<Tensor> {
        self.read(name, None)
    }

    /// A parameter with the rows of it that adapters train.
    fn read(&self, name: &str, dtype: Option<DType>) -> Result<Tensor> {
        let value = self.parameters.read(name, dtype)?;
        match self.adapters {
            Some(adapters) => adapters.with_token_rows(self, name, value),
            None => Ok(value),
        }
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

    /// Traces repeated layers, the first of which reads `x` and each other one the result of the one before; `layer`
    /// traces one by its number. Behind the attention of the last one, only those tokens are left that are read. A
    /// layer is the unit of gradient checkpointing, and of gathering parameters in shards.
    pub(crate) fn layers(
        &self,
        name: &str,
        mut layers: Range<usize>,
        x: Tensor,
        layer: impl Fn(&Forward<'_>, usize, &Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let (read, last) = (self.parameters.read_tokens(), layers.end.saturating_sub(1));
        layers.try_fold(x, |x, index| {
            let name = format!("{name}{index}");
            let read = read.filter(|_| index == last).cloned();
            let parameters = self.parameters.for_reading(read);
            Forward { parameters: &parameters, ..*self }.ahead_of(&x, |cx| {
                match cx.gradient_checkpointing {
                    true => cx.trace.checkpoint(&name, || Ok(layer(cx, index, &x)))?,
                    false => cx.scope(&name, || layer(cx, index, &x)),
                }
            })
        })
    }

    /// Traces a part that reads `x`, and whose parameters are gathered while the layer before it runs.
    pub(crate) fn ahead_of<T>(
        &self,
        x: &Tensor,
        body: impl FnOnce(&Forward<'_>) -> Result<T>,
    ) -> Result<T> {
        let parameters = self.parameters.gathered_ahead_of(x)?;
        body(&Forward { parameters: &parameters, ..*self })
    }

    /// Traces a named part of the model.
    pub fn scope<T>(&self, name: &str, body: impl FnOnce() -> Result<T>) -> Result<T> {
        self.trace.scope(name, || Ok(body()))?
    }
}
