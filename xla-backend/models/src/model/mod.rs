//! A model as the training loop sees it: parameters, inputs and a traced forward
//! pass, whole or in stages, from a batch to logits and a loss.

mod batch;
mod behind_attention;
mod body;
mod forward;
mod head;
mod read_tokens;
mod reads;

use std::ops::Range;

use traind_xla::Tensor;

pub use batch::{
    Batch, IGNORED_LABEL, InputDim, InputRole, InputSpec, InputValues, PACKED_TOKENS,
    PADDED_LENGTH, PADDED_TOKENS, PREDICTED_SLOTS, PREDICTED_TOKENS,
};
pub(crate) use body::Body;
pub use forward::{Forward, ParameterTensors};
pub(crate) use head::{Head, LanguageModelHead};
pub(crate) use read_tokens::{ReadTokens, numbers_at, places_in_rows};
pub(crate) use reads::Reads;

use crate::config::{GENERATOR, ModelConfig};
use crate::error::{Error, Result};
use crate::parameters::{ParameterPath, ParameterSpec};
use crate::tensor_parallel::{self, Logits};
use crate::tuning::Adapters;

/// A model of one family for one task, built from its config: a body, which reads tokens, and a head, which answers the
/// task.
///
/// It holds no weights: they are tensors of the trace it is called in.
#[derive(Debug)]
pub struct Model {
    config: ModelConfig,
    parameters: Vec<ParameterSpec>,
    adapters: Adapters,
    body: Box<dyn Body>,
    head: Box<dyn Head>,
}

impl Model {
    /// Builds a model of parts that declare their parameters below the root.
    pub(crate) fn assemble<B: Body + 'static, H: Head + 'static>(
        config: ModelConfig,
        parts: impl FnOnce(&ModelConfig, &mut ParameterPath<'_>) -> Result<(B, H)>,
    ) -> Result<Model> {
        let mut parameters = Vec::new();
        let (body, head) = parts(&config, &mut ParameterPath::root(&mut parameters))?;
        let (body, head) = (Box::new(body), Box::new(head));
        Ok(Model { config, parameters, adapters: Adapters::default(), body, head })
    }

    /// Returns the config that the model was built from.
    pub fn config(&self) -> &ModelConfig {
        &self.config
    }

    /// The parameters in the order of the forward pass; the order is stable.
    pub fn parameters(&self) -> &[ParameterSpec] {
        &self.parameters
    }

    /// The adapters beside its weights, which a forward pass applies if it is given them.
    pub fn adapters(&self) -> &Adapters {
        &self.adapters
    }

    /// Replaces what is trained: the parameters, those of adapters among them, and the adapters.
    pub(crate) fn tune(&mut self, parameters: Vec<ParameterSpec>, adapters: Adapters) {
        (self.parameters, self.adapters) = (parameters, adapters);
    }

    /// The submodule that holds all but the head, as transformers calls it.
    pub fn base_model_prefix(&self) -> &'static str {
        self.body.prefix()
    }

    /// The inputs of a batch, in a stable order.
    pub fn inputs(&self) -> Vec<InputSpec> {
        [self.body.inputs(), self.head.inputs()].concat()
    }

    /// The most rows that a batch of one core may have; `None` for no limit.
    pub fn rows_max(&self) -> Option<usize> {
        self.head.rows_max()
    }

    /// The meaning of the logits, for evaluation.
    pub fn output(&self) -> OutputKind {
        self.head.output()
    }

    /// The number of repeated layers.
    pub fn num_layers(&self) -> usize {
        self.body.num_layers()
    }

    /// Whether two layers trace the same operations, if their parameters have the same shapes.
    pub(crate) fn traces_alike(&self, layer: usize, other: usize) -> bool {
        self.body.traces_alike(layer, other)
    }

    /// Traces the first stage: one core's share of the batch as the first layer takes it.
    pub fn embeddings(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        cx.over_positions(self.body.token_dims(batch)?, |cx| {
            cx.scope("embeddings", || self.body.embeddings(cx, batch))
        })
    }

    /// Traces some of the repeated layers. None read nothing, not even what all layers share.
    pub fn layers(
        &self,
        cx: &Forward<'_>,
        layers: Range<usize>,
        states: HiddenStates,
        batch: &Batch,
    ) -> Result<HiddenStates> {
        if layers.is_empty() {
            return Ok(states);
        }
        let dims = self.body.token_dims(batch)?;
        let is_last = layers.end == self.num_layers();
        cx.over_positions(dims, |cx| {
            let read = if is_last && self.leaves_tokens_out(cx) {
                self.head.reads().tokens(batch, dims)?
            } else {
                None
            };
            let read = read.map(|read| read.with_random(cx.random, dims)).transpose()?;
            let parameters = cx.parameters.for_reading(read);
            self.body.layers(&Forward { parameters: &parameters, ..*cx }, layers, states, batch)
        })
    }

    /// Traces all that follows the last layer: logits and, with labels, the loss.
    pub fn head(&self, cx: &Forward<'_>, states: &HiddenStates, batch: &Batch) -> Result<Output> {
        let dims = self.body.token_dims(batch)?;
        cx.over_positions(dims, |cx| {
            let are_read = self.leaves_tokens_out(cx);
            cx.ahead_of(&states.last, |cx| {
                let states = self.body.finish(cx, states)?;
                let read = self.head.reads().tokens(batch, dims)?.filter(|_| !are_read);
                let of_read = |states: &Tensor| match &read {
                    Some(read) => read.of_all(states),
                    None => Ok(states.clone()),
                };
                cx.scope("head", || match self.head.divides_positions() {
                    true => self.head.forward(cx, &of_read(&states)?, batch),
                    false => cx.with_all_positions(&states, |cx, states| {
                        self.head.forward(cx, &of_read(states)?, batch)
                    }),
                })
            })
        })
    }

    /// Whether the last layer leaves the tokens out that the head does not read.
    fn leaves_tokens_out(&self, cx: &Forward<'_>) -> bool {
        self.body.leaves_tokens_out()
            && self.num_layers() > 0
            && cx.parameters.positions().is_none()
    }

    /// Traces all stages for one core's share of the batch.
    pub fn forward(&self, cx: &Forward<'_>, batch: &Batch) -> Result<Output> {
        let states = self.last_layer(cx, batch)?;
        self.head(cx, &states, batch)
    }

    fn last_layer(&self, cx: &Forward<'_>, batch: &Batch) -> Result<HiddenStates> {
        let states = self.embeddings(cx, batch)?;
        self.layers(cx, 0..self.num_layers(), states, batch)
    }

    /// Whether it writes texts token by token.
    pub fn is_generative(&self) -> bool {
        self.language_model().is_some()
    }

    /// The tokens beyond which a growing text has other states for all of its tokens, as transformers computes them:
    /// with the first token behind so many, what is cached is computed anew.
    pub fn rereads_beyond(&self) -> Option<usize> {
        self.body.rereads_beyond()
    }

    fn language_model(&self) -> Option<&dyn LanguageModelHead> {
        self.head.as_language_model().filter(|_| self.body.is_generative())
    }

    /// Traces the logits of the token behind the last one of each row, f32[R, V]. `last` s32`[R]` is the
    /// place of that one among the row's positions; without it, the pass has one position.
    pub fn next_token_logits(
        &self,
        cx: &Forward<'_>,
        batch: &Batch,
        last: Option<&Tensor>,
    ) -> Result<Tensor> {
        let Some(head) = self.language_model() else {
            let model_type = self.config.model_type()?.to_owned();
            return Err(Error::NoGeneration { model_type });
        };
        let mut states = self.last_layer(cx, batch)?;
        if let Some(last) = last {
            states.last = last_states(&states.last, last)?;
        }
        let states = self.body.finish(cx, &states)?;
        cx.scope("head", || head.logits(cx, &states)?.whole())
    }

    /// Whether its layers compute the tokens of a batch alone, without padding, where the batch has [`PACKED_TOKENS`]
    /// and [`PADDED_TOKENS`].
    pub fn packs_tokens(&self) -> bool {
        self.body.packs_tokens()
    }

    /// Whether its head reads padding that stands before the tokens of a row. Layers that leave it out give it states
    /// of zeros.
    pub fn reads_padding_ahead(&self) -> bool {
        self.head.reads().reads_padding_ahead()
    }

    /// Whether packed tokens also attend to each other without padding, where a platform has
    /// [a kernel](traind_xla::ops::PackedRows::has_kernel). Learned scores are those of padded rows.
    pub fn attends_packed_tokens(&self) -> bool {
        self.body.attends_packed_tokens()
    }

    /// The rows of the token embedding: every token id is below it.
    pub fn vocab_size(&self) -> usize {
        self.body.vocab_size()
    }

    /// The folder, in that of the model, of the generator that is trained with it, if there is one.
    pub fn generator_folder(&self) -> Option<&'static str> {
        self.config.generator_config().map(|_| GENERATOR)
    }

    /// The longest row that the model can read.
    pub fn max_positions(&self) -> usize {
        self.body.max_positions()
    }

    /// Floating-point operations of one forward pass, dots only; a training
    /// step is three times as many.
    pub fn forward_flops(&self, rows: usize, lengths: Lengths) -> f64 {
        let body = self.body.forward_flops(lengths, self.head.reads().positions(lengths));
        rows as f64 * (body + self.head.forward_flops(lengths))
    }

    /// Refuses a number of cores that cannot share its layers.
    pub fn check_tensor_parallel(&self, cores: usize) -> Result<()> {
        if cores > 1 && !self.body.is_tensor_parallel() {
            let model_type = self.config.model_type()?.to_owned();
            return Err(Error::NoTensorParallelism { model_type });
        }
        if cores > 1 {
            self.adapters.check_whole_tables()?;
        }
        tensor_parallel::check(&self.parameters, cores)
    }

    /// Refuses a tokenizer that can give ids beyond the embedding.
    pub fn check_vocabulary(&self, tokenizer_tokens: usize) -> Result<()> {
        if tokenizer_tokens <= self.vocab_size() {
            return Ok(());
        }
        Err(Error::Vocabulary {
            path: self.config.path().to_owned(),
            tokenizer: tokenizer_tokens,
            embedding: self.vocab_size(),
        })
    }
}

/// The states f32[B, H] at the places `last` s32[B] of the rows of `states` f32[B S, H].
fn last_states(states: &Tensor, last: &Tensor) -> Result<Tensor> {
    let positions = states.dims()[0] / last.dims()[0];
    Ok(states.take(&places_in_rows(last, positions)?)?)
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
    /// f32[B, S, 3]: the logit by which a token counts as replaced, a 1 where it is, and the loss of the
    /// generator's prediction of it. See [`crate::tasks::replaced_tokens`].
    ReplacedTokens,
}

/// The padded lengths of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// The padded length of rows.
    pub positions: usize,
    /// 0 where the model reads one sequence.
    pub target_positions: usize,
    /// The tokens of a row whose predictions are computed, on average over a batch; 0 where those of all are.
    pub predicted_positions: usize,
}

impl Lengths {
    /// Lengths for a model that reads one sequence.
    pub fn of(positions: usize) -> Lengths {
        Lengths { positions, target_positions: 0, predicted_positions: 0 }
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
    /// States of the source sequence, to which the layers of a decoder attend, f32[B S', H]; or what is known of each
    /// token besides its state, f32[B S, W].
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
