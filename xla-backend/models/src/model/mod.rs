//! A model as the training loop sees it: parameters, inputs and a traced forward
//! pass, whole or in stages, from a batch to logits and a loss.

mod batch;
mod forward;

use std::ops::Range;

use traind_xla::Tensor;

pub use batch::{Batch, InputDim, InputRole, InputSpec, PACKED_TOKENS, PADDED_TOKENS};
pub use forward::{Forward, ParameterTensors};

use crate::config::ModelConfig;
use crate::error::{Error, Result};
use crate::parameters::ParameterSpec;
use crate::tensor_parallel::{self, Logits};
use crate::tuning::Adapters;

/// A model of one family for one task, built from its config.
///
/// It holds no weights: they are tensors of the trace it is called in.
pub trait Model: Send + Sync {
    /// Returns the config that the model was built from.
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

    /// Whether its layers compute the tokens of a batch alone, without padding, where the batch has [`PACKED_TOKENS`]
    /// and [`PADDED_TOKENS`].
    fn packs_tokens(&self) -> bool {
        false
    }

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
        if cores > 1 {
            self.adapters().check_whole_tables()?;
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
    PerRow {
        /// The number of logits of a row.
        classes: usize,
    },
    /// f32[B, S, C], to be compared with the label of the same token.
    PerToken {
        /// The number of logits of a token.
        classes: usize,
    },
    /// f32[B, S, C], to be compared with the label of the token behind.
    NextToken {
        /// The size of the vocabulary.
        classes: usize,
    },
    /// f32[B, S, 2]: each token's scores as the answer's start and as its end.
    Span,
}

/// The padded lengths of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// The padded length of rows.
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

/// The results of a forward pass.
#[derive(Clone, Debug)]
pub struct Output {
    /// The scores of classes or tokens.
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
